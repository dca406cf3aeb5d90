"""The PostgreSQL bus only: leases, the active consumer, and rows without a consumer."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from catraca.platform.bus import Message
from catraca.platform.bus.postgres import PostgresBus, subscription, tables
from catraca.platform.database import Database, Db, Row
from catraca.platform.redis_client import RedisAway
from tests.platform.bus.world import World
from tests.servers import Stack, until

pytestmark = pytest.mark.parametrize(
    ("stack", "carrier"),
    [pytest.param("embedded", "postgres", id="embedded"), pytest.param("servers", "postgres", id="servers")],
    indirect=True,
    scope="session",
)


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "LEASE_SECONDS", 1.0)
    monkeypatch.setattr(subscription, "RENEW_SECONDS", 0.2)


class BlockedHandler:
    """A handler that does not finish until it is released."""

    def __init__(self) -> None:
        self.began, self.released = asyncio.Event(), asyncio.Event()

    async def hold(self, _db: Db, _message: Message) -> None:
        self.began.set()
        await self.released.wait()


async def lease_over(world: World) -> None:
    """Wait until every lease taken up to now would have expired without renewal."""
    async with world.database.connection() as db:
        over_at = await db.fetchval(
            "SELECT clock_timestamp() + make_interval(secs => $1)", subscription.LEASE_SECONDS + 0.2
        )

        async def is_over() -> bool:
            return await db.fetchval("SELECT clock_timestamp() > $1", over_at)

        await until(is_over)


@pytest.mark.usefixtures("short_leases")
async def test_a_busy_consumer_keeps_its_leases(world: World) -> None:
    queue = world.queue("kept", prefetch=4, concurrency=1)
    await world.open(queue)
    handler = BlockedHandler()
    await world.publish(*(messages := [world.message() for _ in range(4)]))
    async with world.consuming(queue, handler.hold):
        await handler.began.wait()
        async with world.consuming(queue, bus=world.connect()):
            await lease_over(world)
            assert await world.ids(queue) == []
        handler.released.set()
        await world.until_applied(queue, 4)
    assert await world.ids(queue) == [message.id for message in messages]


@pytest.mark.usefixtures("short_leases")
async def test_busy_active_consumer_stays_active(world: World) -> None:
    """A busy consumer claims nothing, and must stay active nevertheless."""
    queue = world.queue("slow", single_active=True, prefetch=2)
    await world.open(queue)
    began, is_away = asyncio.Event(), True

    async def find_redis_away(_db: Db, _message: Message) -> None:
        began.set()
        if is_away:
            raise RedisAway

    await world.publish(*(messages := [world.message() for _ in range(6)]))
    async with world.consuming(queue, find_redis_away):
        await began.wait()
        async with world.consuming(queue, bus=world.connect()):
            await lease_over(world)
            assert await world.ids(queue) == []
            is_away = False
            await world.until_applied(queue, 6)
    assert await world.ids(queue) == [message.id for message in messages]


@pytest.mark.usefixtures("short_leases")
async def test_a_former_active_consumer_can_apply_nothing(world: World) -> None:
    queue = world.queue("overtaken", single_active=True, prefetch=4)
    await world.open(queue)
    await world.publish(*(messages := [world.message() for _ in range(6)]))
    frozen = await world.bus.subscribe(queue, when_ready=world.database.is_up)
    assert isinstance(frozen, subscription.PostgresSubscription)
    in_hand = await until_taken(frozen, 4)
    freeze(frozen)
    narrow = replace(queue, prefetch=2)
    next_one = await world.connect().subscribe(narrow, when_ready=world.database.is_up)
    taken = await until_taken(next_one, 2)
    assert [delivery.message.id for delivery in taken] == [message.id for message in messages[:2]]
    async with world.database.transaction() as db:
        assert await frozen.admit(db, in_hand) == [], "not even what the next one has not taken yet"
    async with world.database.transaction() as db:
        assert await next_one.admit(db, taken) == taken
    await next_one.close()


@pytest.mark.usefixtures("short_leases")
async def test_a_reactivated_consumer_starts_with_the_oldest_message(world: World) -> None:
    queue = world.queue("restored", single_active=True, prefetch=4)
    await world.open(queue)
    await world.publish(*(messages := [world.message() for _ in range(6)]))
    first = await world.bus.subscribe(queue, when_ready=world.database.is_up)
    assert isinstance(first, subscription.PostgresSubscription)
    in_hand = await until_taken(first, 4)
    freeze(first)
    second = await world.connect().subscribe(queue, when_ready=world.database.is_up)
    assert isinstance(second, subscription.PostgresSubscription)
    await until_taken(second, 2)
    freeze(second)
    thaw(first)
    taken = await until_taken(first, 4)
    assert [delivery.message.id for delivery in taken] == [message.id for message in messages[:4]]
    assert all(delivery.lapsed for delivery in in_hand)
    async with world.database.transaction() as db:
        assert await first.admit(db, taken) == taken
    await first.close()


def freeze(consumer: subscription.PostgresSubscription) -> None:
    consumer._renewing.cancel()
    consumer._fetching.cancel()


def thaw(consumer: subscription.PostgresSubscription) -> None:
    consumer._renewing = asyncio.create_task(consumer._renew())
    consumer._fetching = asyncio.create_task(consumer._fetch())


async def until_taken(source: object, count: int) -> list:
    async with asyncio.timeout(30):
        return await source.next(count)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("short_leases")
async def test_a_claim_with_a_lost_answer_is_delivered_again(world: World) -> None:
    queue = world.queue("unanswered", prefetch=1, concurrency=1)
    await world.open(queue)
    handler = BlockedHandler()
    await world.publish(world.message())
    async with world.consuming(queue, handler.hold):
        await handler.began.wait()
        await world.publish(lost := world.message())
        async with world.database.connection() as db:
            # The consumer's own lease, as if the connection had broken after the claim was committed.
            lease = await db.fetchval("SELECT lease FROM bus_messages WHERE queue = $1", queue.name)
            await tables.claim_messages(db, queue.name, lease=lease, lease_seconds=0.5, limit=2)
        async with world.consuming(queue, bus=world.connect()):
            await world.until_applied(queue, 1)
        assert await world.ids(queue) == [lost.id]
        handler.released.set()


async def test_unconsumed_transient_messages_do_not_pile_up(world: World) -> None:
    queue = world.queue("positions", transient_seconds=0.1, dead_letters_to=None)
    await world.open(queue)

    async def kept() -> int:
        async with world.database.connection() as db:
            return await db.fetchval("SELECT count(*) FROM bus_transient WHERE queue = $1", queue.name)

    await world.bus.publish_transient([world.message() for _ in range(50)])
    assert await kept() == 50

    async def only_the_last() -> bool:
        await world.bus.publish_transient([world.message()])
        return await kept() < 50

    await until(only_the_last)


async def test_confirmed_messages_need_a_durable_queue(world: World) -> None:
    queue = world.queue("positions", transient_seconds=5, dead_letters_to=None)
    await world.open(queue)
    (outcome,) = await world.bus.publish([world.message()])
    assert type(outcome).__name__ == "Unroutable"


async def test_a_consumer_that_can_never_claim_fails_loudly(world: World, stack: Stack) -> None:
    """A consumer that can receive nothing must fail, so that its supervisor notices."""
    queue = world.queue("deaf")
    await world.open(queue)
    empty = await Database.open(stack.database_url.replace("/catraca?", "/postgres?"))
    try:
        deaf = await PostgresBus(empty, world.topology).subscribe(queue, when_ready=empty.is_up)
        with pytest.raises(asyncpg.UndefinedTableError):
            await until_taken(deaf, 1)
        await deaf.close()
    finally:
        await empty.close()


async def test_claim_of_many_reads_only_what_it_claims(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The statistics are of an emptied queue: PostgreSQL expects one message."""
    queue = world.queue("long", prefetch=500)
    await world.open(queue)
    async with world.database.connection() as db:
        await db.execute("ANALYZE bus_messages")
        await db.execute(
            "INSERT INTO bus_messages (queue, message_id, exchange, routing_key, headers, body)"
            " SELECT $1, gen_random_uuid(), $2, 'thing.happened', '{}', '' FROM generate_series(1, 20000)",
            queue.name,
            world.exchange,
        )
    plans: list[dict[str, Any]] = []
    claim = tables.claim_messages

    async def explain_and_claim(db: Db, *args: Any, **options: Any) -> Any:
        plans.append(await explain(db, lambda explained: claim(explained, *args, **options)))
        return await claim(db, *args, **options)

    monkeypatch.setattr(tables, "claim_messages", explain_and_claim)
    source = await world.bus.subscribe(queue, when_ready=world.database.is_up)
    assert await source.next(500)
    await source.close()
    assert most_rows(plans[0]) <= 500


async def explain(db: Db, work: Callable[[Any], Awaitable[object]]) -> dict[str, Any]:
    """Run the one statement of `work` under EXPLAIN and roll it back; return its plan."""
    found: list[str] = []

    class Explained:
        async def fetch(self, query: str, *args: object) -> list[Row]:
            await db.execute("SAVEPOINT before")
            found.append(await db.fetchval("EXPLAIN (ANALYZE, FORMAT JSON) " + query, *args))
            await db.execute("ROLLBACK TO before")
            return []

    await work(Explained())
    return json.loads(found[0])[0]["Plan"]


def most_rows(plan: dict[str, Any]) -> float:
    parts = (most_rows(part) for part in plan.get("Plans", ()))
    return max(plan["Actual Rows"] * plan["Actual Loops"], *parts, 0)
