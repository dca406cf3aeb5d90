"""A bad message in a batch never harms its neighbours, on every bus."""

import math
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import aiormq
import asyncpg
import pytest
from pamqp.commands import Basic

from catraca.platform.bus import HandleAlone, Message, Queue
from catraca.platform.bus.handlers import Unreadable
from catraca.platform.database import Db
from catraca.platform.errors import NotFound
from tests.platform.bus.world import KEY, World, on_every_bus

pytestmark = on_every_bus

NEVER = 3600
SIZE = 16


def batched(world: World, **options: Any) -> Queue:
    chosen = {"batch": 4, "prefetch": 16, "concurrency": 1, "fill_seconds": NEVER} | options
    return world.queue("batched", **chosen)


class Writer:
    """Writes a batch with one statement, which fails if it has a bad message; records every attempt."""

    def __init__(self, *bad: UUID) -> None:
        self.attempts: list[list[UUID]] = []
        self._bad = bad

    async def write(self, db: Db, messages: Sequence[Message]) -> Mapping[int, Exception]:
        self.attempts.append([message.id for message in messages])
        await db.fetch(
            "SELECT 1 / (id <> ALL ($2::uuid[]))::int FROM unnest($1::uuid[]) AS id",
            self.attempts[-1],
            list(self._bad),
        )
        return {}


def ids(messages: Sequence[Message]) -> list[UUID]:
    return [message.id for message in messages]


async def test_unreadable_message_is_dead_lettered_without_its_batch(world: World) -> None:
    queue, writer = batched(world), Writer()
    await world.open(queue)
    bad, good = world.message(body=b"{"), [world.message() for _ in range(4)]

    async def refuse(message: Message) -> None:
        if message.id == bad.id:
            raise Unreadable("malformed_json")

    async with world.batching(queue, writer.write, prepare=refuse):
        await world.publish(*good[:2], bad, *good[2:])
        await world.until_applied(queue, 4)
        await world.until_waiting(world.dead, 1)
    assert writer.attempts == [ids(good)], "all in the batch they would have been in"
    assert await world.buried(1) == [bad.with_headers(queue=queue.name, reason="malformed_json")]


async def test_a_message_unreadable_to_the_transport_is_never_prepared(
    world: World, broker_url: str | None
) -> None:
    queue, prepared = batched(world), list[UUID]()
    await world.open(queue)
    reason = await publish_unreadable(world, broker_url)

    async def note(message: Message) -> None:
        prepared.append(message.id)

    async with world.batching(queue, prepare=note):
        await world.publish(*(good := [world.message() for _ in range(4)]))
        await world.until_applied(queue, 4)
        await world.until_waiting(world.dead, 1)
    assert prepared == ids(good)
    (letter,) = await world.buried(1)
    assert (letter.headers.queue, letter.headers.reason) == (queue.name, reason)


async def publish_unreadable(world: World, broker_url: str | None) -> str:
    """Publish with a foreign id (RabbitMQ) or too many deliveries (PostgreSQL); returns the reason."""
    if broker_url is None:
        await world.publish(message := world.message())
        async with world.database.transaction() as db:
            await db.execute("UPDATE bus_messages SET deliveries = 99 WHERE message_id = $1", message.id)
        return "delivery_limit"
    connection = await aiormq.connect(broker_url)
    channel = await connection.channel()
    nameless = Basic.Properties(message_id="42")  # without an id, the client would generate one
    await channel.basic_publish(b"{}", exchange=world.exchange, routing_key=KEY, properties=nameless)
    await connection.close()
    return "bad_id"


async def test_a_refused_preparation_is_retried_then_dead_lettered(
    world: World,
) -> None:
    queue, writer = batched(world), Writer()
    await world.open(queue)
    bad, good = world.message(), [world.message() for _ in range(4)]
    retries: list[int] = []

    async def refuse(message: Message) -> None:
        if message.id == bad.id:
            retries.append(message.headers.retries)
            raise NotFound

    async with world.batching(queue, writer.write, prepare=refuse):
        await world.publish(*good[:2], bad, *good[2:])
        await world.until_waiting(world.dead, 1)
    assert retries == [0, 1, 2, 3]
    assert writer.attempts == [ids(good)]
    (letter,) = await world.buried(1)
    assert letter == bad.with_headers(
        retries=3, retry_reason="not_found", queue=queue.name, reason="not_found"
    )


async def test_a_retried_message_is_written_in_a_later_batch(world: World) -> None:
    queue, writer = batched(world, batch=2), Writer()
    await world.open(queue)
    clumsy, good = world.message(body=b'{"n": 1}'), [world.message() for _ in range(3)]

    async def refuse_at_first(message: Message) -> None:
        if message.id == clumsy.id and not message.headers.retries:
            raise ValueError

    async with world.batching(queue, writer.write, prepare=refuse_at_first):
        await world.publish(clumsy, *good)
        found = await world.until_applied(queue, 4)
    assert writer.attempts == [ids(good[:2]), [good[2].id, clumsy.id]]
    assert found[-1] == clumsy.with_headers(retries=1, retry_reason="ValueError")


async def test_messages_not_named_as_faulty_are_written_once(world: World) -> None:
    queue = batched(world, batch=6)
    await world.open(queue, retry_delays_seconds=())
    messages = [world.message() for _ in range(6)]
    unfit, unreadable = messages[1], messages[4]
    verdicts = {unfit.id: NotFound(), unreadable.id: Unreadable("wrong_shape")}
    attempts: list[list[UUID]] = []

    async def judge(_db: Db, batch: Sequence[Message]) -> Mapping[int, Exception]:
        attempts.append(ids(batch))
        return {place: verdicts[one.id] for place, one in enumerate(batch) if one.id in verdicts}

    async with world.batching(queue, judge):
        await world.publish(*messages)
        await world.until_applied(queue, 4)
    good = [message for message in messages if message.id not in verdicts]
    assert attempts == [ids(messages), ids(good)]
    assert await world.ids(queue) == ids(good), "nothing of the first attempt is there"
    letters = await world.buried(2)
    assert {letter.id: letter.headers.reason for letter in letters} == {
        unfit.id: "not_found",
        unreadable.id: "wrong_shape",
    }


@pytest.mark.parametrize("error", [NotFound(), Unreadable("wrong_shape")])
async def test_a_named_message_is_retried_unless_it_is_unreadable(world: World, error: Exception) -> None:
    queue = batched(world, batch=1)
    await world.open(queue, retry_delays_seconds=(0.05, 0.05))
    retries: list[int] = []

    async def judge(_db: Db, batch: Sequence[Message]) -> Mapping[int, Exception]:
        retries.append(batch[0].headers.retries)
        return {0: error}

    async with world.batching(queue, judge):
        await world.publish(world.message())
        await world.until_waiting(world.dead, 1)
    assert retries == ([0] if isinstance(error, Unreadable) else [0, 1, 2])
    assert await world.ids(queue) == []


@pytest.mark.parametrize(
    "places", [(5,), (0, 15), (6, 7), tuple(range(SIZE))], ids=["one", "two apart", "two together", "all"]
)
async def test_failed_batch_is_halved_to_isolate_bad_messages(world: World, places: tuple[int, ...]) -> None:
    queue = batched(world, batch=SIZE)
    await world.open(queue, retry_delays_seconds=())
    messages = [world.message() for _ in range(SIZE)]
    bad = [messages[place] for place in places]
    writer = Writer(*ids(bad))
    async with world.batching(queue, writer.write):
        await world.publish(*messages)
        await world.until_waiting(world.dead, len(bad))
        await world.until_applied(queue, SIZE - len(bad))
    assert await world.ids(queue) == [one.id for one in messages if one not in bad], "each once, and in order"
    letters = await world.buried(len(bad))
    assert sorted(ids(letters)) == sorted(ids(bad))
    assert {letter.headers.reason for letter in letters} == {asyncpg.DivisionByZeroError.__name__}
    # Two per level for each bad message; if all are bad, every part of the batch once.
    assert len(writer.attempts) <= min(1 + 2 * len(bad) * math.log2(SIZE), 2 * SIZE - 1)


async def test_bad_row_is_retried_with_others_then_dead_lettered(world: World) -> None:
    queue = batched(world, batch=2)
    await world.open(queue, retry_delays_seconds=(0.05,))
    good, bad = [world.message(), world.message()], world.message()
    writer = Writer(bad.id)
    async with world.batching(queue, writer.write):
        await world.publish(good[0], bad)
        await world.until_applied(queue, 1)
        await world.publish(good[1])
        await world.until_waiting(world.dead, 1)
        await world.until_applied(queue, 2)
    assert writer.attempts[:3] == [[good[0].id, bad.id], [good[0].id], [bad.id]]
    assert sorted(writer.attempts[3]) == sorted([good[1].id, bad.id])
    assert await world.ids(queue) == ids(good)
    (letter,) = await world.buried(1)
    assert letter.headers.retries == 1
    assert letter.headers.retry_reason == letter.headers.reason == asyncpg.DivisionByZeroError.__name__


async def test_messages_to_handle_alone_come_after_the_others(world: World) -> None:
    queue = batched(world, batch=4)
    await world.open(queue)
    messages = [world.message() for _ in range(4)]
    first, second, third, fourth = (message.id for message in messages)
    await world.publish(*messages)
    attempts: list[list[UUID]] = []

    async def write(_db: Db, batch: Sequence[Message]) -> Mapping[int, Exception]:
        attempts.append(ids(batch))
        if len(batch) > 1 and first in ids(batch):
            raise HandleAlone({first, third})
        return {}

    async with world.batching(queue, write):
        await world.until_applied(queue, 4)
    assert await world.ids(queue) == [second, fourth, first, third]
    assert attempts == [[first, second, third, fourth], [second, fourth], [first], [third]]


async def test_batch_that_names_no_message_of_its_own_is_halved(world: World) -> None:
    queue = batched(world, batch=2)
    await world.open(queue)
    messages = [world.message(), world.message()]
    await world.publish(*messages)

    async def write(_db: Db, batch: Sequence[Message]) -> Mapping[int, Exception]:
        if len(batch) > 1:
            raise HandleAlone({uuid4()})
        return {}

    async with world.batching(queue, write):
        await world.until_applied(queue, 2)
    assert await world.ids(queue) == ids(messages)
