"""Transient messages: they may be dropped and are never delivered late, on every bus."""

import asyncio
from uuid import UUID, uuid4

from catraca.platform.bus import Message, Queue
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Db
from catraca.platform.errors import DatabaseUnavailable
from tests.platform.bus.world import KEY, World, on_every_bus
from tests.servers import until

pytestmark = on_every_bus


def positions(world: World, *, seconds: float, **options: int) -> Queue:
    return world.queue("positions", transient_seconds=seconds, dead_letters_to=None, **options)


async def until_stale(queue: Queue) -> None:
    """Wait until all messages published so far are stale."""
    assert queue.transient_seconds is not None
    stale_at = monotonic_seconds() + queue.transient_seconds
    await until(lambda: monotonic_seconds() > stale_at)


def undated(message: Message) -> Message:
    """The message without the publishing time, which a bus may add."""
    return message.with_headers(sent_at=None)


async def published_until_applied(world: World, queue: Queue, *, but: int = 0) -> set[UUID]:
    """Publish until one is applied, as on a busy machine any may be too late; returns all published ids."""
    fresh: set[UUID] = set()

    async def applied() -> bool:
        await world.bus.publish_transient([message := world.message()])
        fresh.add(message.id)
        return len(await world.ids(queue)) > but

    await until(applied)
    return fresh


async def test_fresh_messages_reach_every_transient_queue_unchanged(world: World) -> None:
    queues = [world.queue(name, transient_seconds=30, dead_letters_to=None) for name in ("one", "other")]
    await world.open(*queues)
    messages = [world.message(body=b'{"n": %d}' % number, about=uuid4(), seq=1) for number in range(5)]
    await world.bus.publish_transient(messages)
    for queue in queues:
        async with world.consuming(queue):
            found = await world.until_applied(queue, 5)
        assert [undated(one) for one in sorted(found, key=lambda one: one.id)] == messages


async def test_transient_messages_expire(world: World) -> None:
    queue = positions(world, seconds=0.3)
    await world.open(queue)
    await world.bus.publish_transient([world.message() for _ in range(40)])
    await until_stale(queue)
    async with world.consuming(queue):
        fresh = await published_until_applied(world, queue)
    assert fresh.issuperset(await world.ids(queue))


async def test_messages_stale_after_slow_work_are_dropped(world: World) -> None:
    queue = positions(world, seconds=1.0, prefetch=20, concurrency=1)
    await world.open(queue)
    first, waiting = world.message(), [world.message() for _ in range(3)]
    began, gate = asyncio.Event(), asyncio.Event()

    async def hold_the_first(_db: Db, message: Message) -> None:
        if message.id == first.id:
            began.set()
            await gate.wait()

    async with world.consuming(queue, hold_the_first):
        await world.bus.publish_transient([first])
        await began.wait()
        await world.bus.publish_transient(waiting)
        await until_stale(queue)
        gate.set()
        await world.until_applied(queue, 1)
        fresh = await published_until_applied(world, queue, but=1)
    begun, *others = await world.ids(queue)
    assert begun == first.id
    assert fresh.issuperset(others)


async def test_messages_stale_after_an_outage_are_dropped(world: World) -> None:
    queue = positions(world, seconds=0.4, concurrency=1)
    await world.open(queue)
    away = True

    async def find_it_away(_db: Db, _message: Message) -> None:
        if away:
            raise DatabaseUnavailable

    async with world.consuming(queue, find_it_away):
        await world.bus.publish_transient([world.message()])
        await until_stale(queue)
        away = False
        fresh = await published_until_applied(world, queue)
    assert fresh.issuperset(await world.ids(queue))


async def test_transient_consumer_holds_at_most_its_prefetch(world: World) -> None:
    queue = positions(world, seconds=30, prefetch=3, concurrency=1)
    await world.open(queue)
    gate = asyncio.Event()

    async def hold(_db: Db, _message: Message) -> None:
        await gate.wait()

    async with world.consuming(queue, hold):
        await world.bus.publish_transient([world.message() for _ in range(10)])
        # This consumer holds at most one in work and three waiting; the others go to another consumer.
        async with world.consuming(queue, bus=world.connect()):
            await world.until_applied(queue, 6)
        gate.set()
        await world.until_applied(queue, 10)
    assert len(set(await world.ids(queue))) == len(await world.ids(queue)) == 10


async def test_failed_transient_message_is_dropped_without_retry(world: World) -> None:
    queue = positions(world, seconds=30, concurrency=1)
    await world.open(queue)
    bad, good = world.message(), world.message()
    tried: list[Message] = []

    async def fail(_db: Db, message: Message) -> None:
        tried.append(undated(message))
        if message.id == bad.id:
            raise ValueError

    async with world.consuming(queue, fail):
        await world.bus.publish_transient([bad])
        await until(lambda: tried)
        await world.bus.publish_transient([good])
        await world.until_applied(queue, 1)
    assert tried == [bad, good]
    assert (await world.bus.depths())[world.dead.name] == 0


async def test_transient_messages_without_a_queue_are_no_error(world: World) -> None:
    queue = positions(world, seconds=30)
    await world.open(queue, keys=(KEY, "thing.unknown"))
    await world.bus.publish_transient([world.message("thing.unknown"), known := world.message()])
    async with world.consuming(queue):
        await world.until_applied(queue, 1)
    assert await world.ids(queue) == [known.id]
