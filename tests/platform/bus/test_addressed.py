"""A message for one queue only, as a replayed dead letter is, on every bus."""

from uuid import UUID, uuid4

import msgspec
import pytest
from msgspec.structs import replace

from catraca.platform.bus import Headers, Message, Queue, QueueFull, Unroutable
from catraca.platform.ids import new_id
from tests.platform.bus.world import KEY, World, on_every_bus
from tests.servers import until

pytestmark = on_every_bus


async def write_replay(world: World, message: Message, *, wait_seconds: float = 0) -> None:
    """Insert the outbox row of a replay as the dead letters domain does."""
    async with world.database.transaction() as db:
        await db.execute(
            "INSERT INTO outbox (id, aggregate_id, seq, exchange, routing_key, headers, body, queue,"
            "   message_id, created_at, leased_until)"
            " SELECT $1, $2, 1, $3, $4, $5, $6, $7, $8, due, due"
            " FROM (SELECT clock_timestamp() + make_interval(secs => $9) AS due) AS d",
            new_id(),
            uuid4(),
            message.exchange,
            message.key,
            msgspec.json.encode(message.headers).decode(),
            message.body.decode(),
            message.queue,
            message.id,
            wait_seconds,
        )


async def failures(world: World, queue: str) -> int | None:
    async with world.database.connection() as db:
        return await db.fetchval("SELECT max(failures) FROM outbox WHERE queue = $1", queue)


async def test_addressed_message_reaches_only_its_queue_unchanged(world: World) -> None:
    failed, other = world.queue("failed"), world.queue("other")
    await world.open(failed, other)
    message = world.message(body=b'{"a": 1}', about=uuid4(), seq=7)
    await world.publish(replace(message, queue=failed.name))
    async with world.consuming(failed):
        await world.until_applied(failed, 1)
    assert await world.applied(failed) == [message]
    assert set((await world.bus.depths()).values()) == {0}


async def test_a_replay_goes_to_its_queue_only_with_its_own_id(world: World) -> None:
    failed, other = world.queue("failed"), world.queue("other")
    await world.open(failed, other)
    message = world.message(body=b'{"a":   1}', about=uuid4(), seq=7)
    # Its key may no longer be routed to any queue.
    message = replace(message, key="thing.forgotten", queue=failed.name)
    await write_replay(world, message)
    async with world.relaying(), world.consuming(failed):
        await world.until_applied(failed, 1)
    assert await world.applied(failed) == [replace(message, queue=None)]
    assert (await world.bus.depths())[other.name] == 0
    async with world.database.connection() as db:
        kept = await db.fetchrow("SELECT * FROM outbox_sent WHERE message_id = $1", message.id)
    assert kept is not None
    assert (kept["queue"], kept["body"]) == (failed.name, '{"a":   1}')
    assert kept["id"] != message.id


async def test_events_and_replays_sent_together_reach_their_queues(world: World) -> None:
    # Without an inbox, so that a second copy would be applied.
    failed = world.queue("failed", single_active=True, remembers=False)
    other = world.queue("other", single_active=True, remembers=False)
    await world.open(failed, other)
    about = uuid4()
    await world.record(*(world.event(about, number) for number in range(5)))
    replay = replace(world.message(about=about, seq=1), queue=failed.name)
    await write_replay(world, replay)
    async with world.relaying(), world.consuming(failed), world.consuming(other):
        await world.until_applied(failed, 6)
        await world.until_applied(other, 5)
        await world.until_waiting(failed, 0)
        await world.until_waiting(other, 0)
    assert (await world.ids(failed)).count(replay.id) == 1
    news = [message for message in await world.applied(failed) if message.id != replay.id]
    assert [message.headers.seq for message in news] == [1, 2, 3, 4, 5]
    assert [message.headers.seq for message in await world.applied(other)] == [1, 2, 3, 4, 5]


async def test_a_replay_is_applied_once_and_repeats_are_absorbed(world: World) -> None:
    queue = world.queue("one", concurrency=1)
    await world.open(queue)
    applied, fresh, last = (world.message() for _ in range(3))
    await world.publish(applied)
    async with world.consuming(queue):
        await world.until_applied(queue, 1)
        for message in (applied, fresh, fresh):
            await world.publish(replace(message, queue=queue.name))
            await write_replay(world, replace(message, queue=queue.name))
        async with world.relaying():
            await until(lambda: nothing_unsent(world))
        await world.publish(last)
        await until(lambda: has(world, queue, last.id))
    assert sorted(await world.ids(queue)) == sorted([applied.id, fresh.id, last.id])


@pytest.mark.parametrize("kind", ["unknown", "transient"])
async def test_message_for_a_queue_that_keeps_nothing_is_unroutable(world: World, kind: str) -> None:
    queue = world.queue("known")
    none = world.queue("none", "none.#", transient_seconds=30 if kind == "transient" else None)
    await world.open(*([queue] if kind == "unknown" else [queue, none]), keys=(KEY, "none.such"))
    about = uuid4()
    lost = replace(world.message(about=about), queue=none.name)
    # Of the same aggregate: a replay has no order with it, so it blocks nothing.
    kept, also_kept = world.message(about=about), replace(world.message(about=about), queue=queue.name)
    refused, *confirmed = await world.bus.publish([lost, kept, also_kept])
    assert isinstance(refused, Unroutable)
    assert confirmed == [None, None]
    await world.until_waiting(queue, 2)


async def test_a_full_queue_refuses_and_the_relay_tries_again(world: World) -> None:
    small, large = world.queue("small", max_length=2, concurrency=1), world.queue("large", "large.#")
    await world.open(small, large, keys=(KEY, "large.thing"))

    async def full() -> bool:
        (outcome,) = await world.bus.publish([replace(world.message("large.thing"), queue=small.name)])
        assert outcome is None or isinstance(outcome, QueueFull)
        return outcome is not None

    await until(full)
    assert (await world.bus.depths())[large.name] == 0
    late = replace(world.message(), queue=small.name)
    await write_replay(world, late)
    async with world.relaying():
        await until(lambda: failures(world, small.name))
        async with world.consuming(small):
            await until(lambda: has(world, small, late.id))
    assert (await world.ids(small)).count(late.id) == 1


async def test_a_replay_without_its_queue_is_kept(world: World) -> None:
    queue, gone = world.queue("known"), world.queue("gone")
    await world.open(queue)
    message = replace(world.message(), queue=gone.name)
    await write_replay(world, message)
    async with world.relaying():
        await until(lambda: failures(world, gone.name))
    await world.open(queue, gone)
    async with world.relaying(), world.consuming(gone):
        assert await world.until_applied(gone, 1) == [replace(message, queue=None)]


async def test_a_delayed_replay_blocks_no_other_message(world: World) -> None:
    queue = world.queue("one")
    await world.open(queue)
    later = replace(world.message(), queue=queue.name)
    sooner = replace(world.message(), queue=queue.name)
    await write_replay(world, later, wait_seconds=3600)
    await write_replay(world, sooner, wait_seconds=0.1)
    async with world.relaying(), world.consuming(queue):
        await until(lambda: has(world, queue, sooner.id))
        await world.record(world.event(uuid4()))
        await world.until_applied(queue, 2)
        async with world.database.connection() as db:
            await db.execute(
                "UPDATE outbox SET created_at = clock_timestamp(), leased_until = clock_timestamp()"
                " WHERE message_id = $1",
                later.id,
            )
        await until(lambda: has(world, queue, later.id))


async def test_retried_replay_keeps_its_queue_and_origin(
    world: World,
) -> None:
    queue, other = world.queue("failing"), world.queue("other")
    await world.open(queue, other)
    message = world.message(about=uuid4(), seq=3)

    async def fail(*_: object) -> None:
        raise KeyError

    async with world.consuming(queue, fail):
        await world.publish(replace(message, queue=queue.name))
        (dead,) = await world.buried(1)
    assert (dead.id, dead.exchange, dead.key) == (message.id, message.exchange, message.key)
    assert (dead.headers.queue, dead.headers.reason) == (queue.name, "KeyError")
    assert (await world.bus.depths())[other.name] == 0


async def test_headers_of_a_replay_are_the_letters_own(world: World) -> None:
    queue = world.queue("one")
    await world.open(queue)
    headers = Headers(aggregate_id=uuid4(), seq=4, round=2, version=3, trace="a-request")
    message = replace(world.message(), headers=headers, queue=queue.name)
    await write_replay(world, message)
    async with world.relaying(), world.consuming(queue):
        (found,) = await world.until_applied(queue, 1)
    assert found.headers == headers


async def nothing_unsent(world: World) -> bool:
    return await world.unsent() == 0


async def has(world: World, queue: Queue, message_id: UUID) -> bool:
    return message_id in await world.ids(queue)
