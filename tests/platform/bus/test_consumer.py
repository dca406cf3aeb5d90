"""The consumer distinguishes a faulty message from an outage, on every bus."""

import asyncio
import math
from collections.abc import Sequence
from contextlib import suppress

import asyncpg
import pytest
from structlog.contextvars import get_contextvars
from structlog.testing import capture_logs

from catraca.platform.bus import BusAway, Delivery, Message, outage_retry
from catraca.platform.bus.outcome import Apply, DeliverySettler
from catraca.platform.database import Db
from catraca.platform.errors import Busy, DatabaseUnavailable, OutcomeUnknown
from catraca.platform.pauses import within
from catraca.platform.redis_client import RedisAway
from catraca.platform.telemetry import render
from tests.platform.bus.world import World, on_every_bus

pytestmark = on_every_bus

SECRET = "maria@example.org"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "FIRST_PAUSE_SECONDS", 0.01)


@pytest.mark.parametrize("kind", [Busy, DatabaseUnavailable, OutcomeUnknown, RedisAway, BusAway])
async def test_server_outage_pauses_and_counts_no_retry(world: World, kind: type[Exception]) -> None:
    async def fall_away(_db: Db) -> None:
        raise kind

    await _holds_out(world, fall_away)


async def test_connection_lost_during_the_work_counts_no_retry(world: World) -> None:
    async def break_connection(db: Db) -> None:
        await db.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    await _holds_out(world, break_connection)


async def test_statement_timeout_counts_no_retry(world: World) -> None:
    async def wait_too_long(db: Db) -> None:
        await db.execute("SET LOCAL statement_timeout = 20")
        await db.execute("SELECT pg_sleep(1)")

    await _holds_out(world, wait_too_long)


async def _holds_out(world: World, fall_away) -> None:
    """After more failures than a message has retries it is applied once, and no retry was counted."""
    queue = world.queue("waiting", concurrency=1)
    await world.open(queue)
    attempts: list[int] = []

    async def handle(db: Db, message: Message) -> None:
        attempts.append(message.headers.retries)
        if len(attempts) <= 5:
            await fall_away(db)

    async with world.consuming(queue, handle):
        await world.publish(message := world.message(), last := world.message())
        await world.until_applied(queue, 2)
    assert await world.ids(queue) == [message.id, last.id], "it keeps what it has in hand, and waits"
    assert attempts == [0] * 7
    assert (await world.bus.depths())[world.dead.name] == 0


async def test_work_that_is_always_busy_fails_by_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", 3)
    queue = world.queue("blocked", concurrency=1)
    await world.open(queue, retry_delays_seconds=(0.05,))
    bad, good = world.message(), world.message()
    attempts: list[int] = []

    async def block(_db: Db, message: Message) -> None:
        if message.id == bad.id:
            attempts.append(message.headers.retries)
            raise Busy

    async with world.consuming(queue, block):
        await world.publish(bad, good)
        await world.until_waiting(world.dead, 1)
        assert await world.ids(queue) == [good.id]
    (letter,) = await world.buried(1)
    assert (letter.id, letter.headers.reason) == (bad.id, "busy")
    assert attempts == [0, 0, 0, 1, 1, 1]


async def test_redis_outage_of_any_length_counts_no_retry(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", 1)

    async def fall_away(_db: Db) -> None:
        raise RedisAway

    await _holds_out(world, fall_away)


@pytest.mark.parametrize("places", [(8,), (1, 14), range(17)], ids=["one", "two", "all"])
async def test_bad_messages_neither_repeat_nor_reorder_others(
    world: World, places: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = _sizes_of_what_is_settled(monkeypatch)
    queue = world.queue("batched", batch=16, prefetch=20, concurrency=1)
    await world.open(queue, retry_delays_seconds=())
    messages = [world.message() for _ in range(17)]
    bad = {messages[place].id for place in places}
    gate, transactions = asyncio.Event(), set[int]()

    async def handle(db: Db, message: Message) -> None:
        await gate.wait()
        transactions.add(await db.fetchval("SELECT txid_current()"))
        if message.id in bad:
            raise ValueError

    async with world.consuming(queue, handle):
        await world.publish(*messages)
        gate.set()
        await world.until_waiting(world.dead, len(bad))
        # An empty queue is not enough: unsettled messages return there when the consumer stops.
        await world.until_applied(queue, len(messages) - len(bad))
    assert await world.ids(queue) == [message.id for message in messages if message.id not in bad]
    assert {letter.id for letter in await world.buried(len(bad))} == bad
    # Two for each halving on the way to a bad message; if all are bad, every part once.
    halvings = math.log2(queue.batch)
    assert len(transactions) <= min(
        len(batches) + 2 * len(bad) * halvings, sum(2 * size - 1 for size in batches)
    )


def _sizes_of_what_is_settled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes: list[int] = []
    settle = DeliverySettler.settle

    async def settle_and_record(
        settling: DeliverySettler, deliveries: Sequence[Delivery], apply: Apply
    ) -> None:
        sizes.append(len(deliveries))
        await settle(settling, deliveries, apply)

    monkeypatch.setattr(DeliverySettler, "settle", settle_and_record)
    return sizes


async def test_a_batch_is_one_transaction(world: World) -> None:
    queue = world.queue("together", batch=5, prefetch=20, concurrency=1)
    await world.open(queue)
    transactions: list[int] = []

    async def handle(db: Db, _message: Message) -> None:
        transactions.append(await db.fetchval("SELECT txid_current()"))

    await world.publish(*(world.message() for _ in range(11)))
    async with world.consuming(queue, handle):
        await world.until_applied(queue, 11)
    assert len(transactions) == 11
    assert len(set(transactions)) < 11


async def test_an_error_that_a_handler_swallowed_is_a_message_fault(world: World) -> None:
    queue = world.queue("careless")
    await world.open(queue)

    async def swallow(db: Db, _message: Message) -> None:
        with suppress(asyncpg.PostgresError):
            await db.execute("SELECT 1 / 0")

    async with world.consuming(queue, swallow):
        await world.publish(world.message())
        await world.until_waiting(world.dead, 1)
    assert await world.ids(queue) == [], "what it seemed to have done is not there"
    (letter,) = await world.buried(1)
    assert letter.headers.reason == "TransactionAborted"
    assert letter.headers.retries == 3


async def test_logs_and_reasons_contain_no_message_content(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    queue = world.queue("discreet")
    await world.open(queue)

    async def tell(_db: Db, message: Message) -> None:
        raise ValueError(f"no such person as {SECRET}") from KeyError(message.body.decode())

    with capture_logs() as told:
        async with world.consuming(queue, tell):
            await world.publish(message := world.message(body=b'{"email": "%s"}' % SECRET.encode()))
            await world.until_waiting(world.dead, 1)
    lines = [render(None, "", dict(event)) for event in told]
    assert [event["event"] for event in told if event["event"].startswith("message_")] == [
        *["message_retried"] * 3,
        "message_dead",
    ]
    assert any(str(message.id).encode() in line for line in lines)
    assert any(b"ValueError" in line for line in lines)
    assert not any(SECRET.encode() in line for line in lines)
    assert SECRET not in caplog.text
    (letter,) = await world.buried(1)
    assert letter.headers.reason == "ValueError"
    assert SECRET.encode() in letter.body


async def test_handler_logs_carry_the_request_id_of_the_event(world: World) -> None:
    queue = world.queue("traced")
    await world.open(queue)
    seen: list[object] = []

    async def look(_db: Db, _message: Message) -> None:
        seen.append(get_contextvars().get("request_id"))

    async with world.consuming(queue, look):
        await world.publish(world.message().with_headers(trace="r-1"))
        await world.until_applied(queue, 1)
    assert seen == ["r-1"]


async def test_consumers_share_transaction_slots(world: World) -> None:
    first, second = world.queue("first"), world.queue("second")
    await world.open(first, second)
    at_work = most_at_work = 0
    two_at_work = asyncio.Event()

    async def work(db: Db, _message: Message) -> None:
        nonlocal at_work, most_at_work
        at_work += 1
        most_at_work = max(most_at_work, at_work)
        if at_work == 2:
            two_at_work.set()
        await within(30, two_at_work)
        await db.execute("SELECT pg_sleep(0.01)")
        at_work -= 1

    hands = asyncio.Semaphore(2)
    async with world.consuming(first, work, slots=hands), world.consuming(second, work, slots=hands):
        await world.publish(*(world.message() for _ in range(8)))
        await world.until_applied(first, 8)
        await world.until_applied(second, 8)
    assert most_at_work == 2, "four workers of each queue, and two transactions at a time"
