"""Messages are prepared singly and written in batches, on every bus: how batches fill, and how they end."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from catraca.platform.bus import Message, Queue, QueueHandlers, outage_retry
from catraca.platform.bus.handlers import EventReader
from catraca.platform.bus.postgres import subscription
from catraca.platform.database import Db
from catraca.platform.errors import DatabaseUnavailable
from tests.platform.bus.doomed import Doomed
from tests.platform.bus.world import KEY, World, on_every_bus
from tests.servers import until

pytestmark = on_every_bus

# Longer than any test: batches are not written because of this time.
NEVER = 3600


@pytest.fixture
def doomed(tmp_path: Path, bus_database_url: str, broker_url: str | None) -> Iterator[Doomed]:
    doomed = Doomed(tmp_path, bus_database_url, broker_url)
    yield doomed
    doomed.kill()


@pytest.fixture
def endless_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that are not given back never come back."""
    monkeypatch.setattr(subscription, "LEASE_SECONDS", NEVER)


def batched(world: World, **options: Any) -> Queue:
    chosen = {"batch": 4, "prefetch": 16, "concurrency": 1, "fill_seconds": NEVER} | options
    return world.queue("batched", **chosen)


class Written:
    """Records the batches that were written."""

    def __init__(self) -> None:
        self.batches: list[list[UUID]] = []

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.batches]

    async def write(self, _db: Db, messages: Sequence[Message]) -> Mapping[int, Exception]:
        self.batches.append([message.id for message in messages])
        return {}


class Turnstile:
    """Blocks callers until it is opened, and counts how many are inside at a time."""

    def __init__(self) -> None:
        self.came = self.inside = self.most_inside = 0
        self._opened = asyncio.Event()

    async def prepare(self, _message: Message) -> None:
        await self._pass()

    async def write(self, _db: Db, _messages: Sequence[Message]) -> Mapping[int, Exception]:
        await self._pass()
        return {}

    def open(self) -> None:
        self._opened.set()

    async def until_inside(self, count: int) -> None:
        await until(lambda: self.inside == count)

    async def _pass(self) -> None:
        self.came += 1
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        await self._opened.wait()
        self.inside -= 1


async def test_a_batch_is_written_when_it_is_full(world: World) -> None:
    queue, written = batched(world), Written()
    await world.open(queue)
    async with world.batching(queue, written.write):
        await world.publish(*(messages := [world.message() for _ in range(8)]))
        await world.until_applied(queue, 8)
    assert written.sizes == [4, 4]
    assert await world.ids(queue) == [message.id for message in messages], "as they came"
    await world.until_waiting(queue, 0)


async def test_partial_batch_is_written_after_its_fill_time(world: World) -> None:
    queue, written = batched(world, fill_seconds=0.1), Written()
    await world.open(queue)
    async with world.batching(queue, written.write):
        for count in (3, 5):  # the next batch too
            await world.publish(*(world.message() for _ in range(count - sum(written.sizes))))
            await world.until_applied(queue, count)
    assert sum(written.sizes) == 5


async def test_batches_never_exceed_their_size(world: World) -> None:
    queue, written = batched(world, fill_seconds=0.05, concurrency=3, processors=3), Written()
    await world.open(queue)
    await world.publish(*(messages := [world.message() for _ in range(18)]))
    async with world.batching(queue, written.write):
        await world.until_applied(queue, 18)
    assert sorted(await world.ids(queue)) == sorted(message.id for message in messages)
    assert sum(written.sizes) == 18
    assert max(written.sizes) == 4


async def test_concurrent_batches_are_limited_by_the_queue(world: World) -> None:
    queue, prepared, writing = batched(world, batch=2, concurrency=3), Turnstile(), Turnstile()
    await world.open(queue)
    prepared.open()
    many_hands = asyncio.Semaphore(12)
    async with world.batching(queue, writing.write, prepare=prepared.prepare, slots=many_hands):
        await world.publish(*(world.message() for _ in range(12)))
        await writing.until_inside(3)
        await until(lambda: prepared.came == 12)  # six full batches, three of them waiting
        writing.open()
        await world.until_applied(queue, 12)
    assert (writing.came, writing.most_inside) == (6, 3)


async def test_concurrent_preparations_are_limited_by_processors(
    world: World,
) -> None:
    queue, other, preparing = batched(world, processors=3), world.queue("other", "other"), Turnstile()
    await world.open(queue, other, keys=(KEY, "other"))
    await world.publish(*(world.message() for _ in range(4)))
    async with world.batching(queue, prepare=preparing.prepare), world.consuming(other):
        await preparing.until_inside(3)
        await world.publish(*(world.message() for _ in range(4)))
        await world.publish(world.message("other"))
        await world.until_applied(other, 1)  # by then the others have arrived too
        preparing.open()
        await world.until_applied(queue, 8)
    assert (preparing.came, preparing.most_inside) == (8, 3)


async def test_pipelines_share_slots_with_other_consumers(world: World) -> None:
    queue, writing = batched(world, batch=2, concurrency=3), Turnstile()
    await world.open(queue)
    hands = asyncio.Semaphore(2)
    async with world.batching(queue, writing.write, slots=hands):
        await world.publish(*(world.message() for _ in range(6)))
        await writing.until_inside(2)
        assert hands.locked()
        writing.open()
        await world.until_applied(queue, 6)
    assert writing.most_inside == 2


@pytest.mark.usefixtures("endless_leases")
async def test_a_stop_writes_prepared_messages_and_returns_the_rest(world: World) -> None:
    queue, preparing, written = batched(world, batch=16), Turnstile(), Written()
    await world.open(queue)
    first, held, waiting = world.message(), world.message(), [world.message() for _ in range(4)]

    async def hold_one(message: Message) -> None:
        if message.id == held.id:
            await preparing.prepare(message)

    async with world.batching(queue, written.write, prepare=hold_one) as stopping:
        await world.publish(first)
        await world.publish(held)
        await preparing.until_inside(1)
        await world.publish(*waiting)
        stopping.set()
        # Another consumer gets exactly the messages that this one had not started.
        async with world.consuming(replace(queue, fill_seconds=0), bus=world.connect()):
            await world.until_applied(queue, 4)
        assert sorted(await world.ids(queue)) == sorted(message.id for message in waiting)
        preparing.open()
    assert written.batches == [[first.id, held.id]], "its time was not over, and there was room in it"
    found = await world.applied(queue)
    assert len(found) == 6
    assert {message.headers.retries for message in found} == {0}
    await world.until_waiting(queue, 0)


@pytest.mark.usefixtures("endless_leases")
@pytest.mark.parametrize("step", ["prepare", "write"])
async def test_a_consumer_stopped_in_a_pause_returns_everything(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "FIRST_PAUSE_SECONDS", NEVER)
    monkeypatch.setattr(outage_retry, "LONGEST_PAUSE_SECONDS", NEVER)
    queue = batched(world, prefetch=8)
    await world.open(queue)
    await world.publish(*(messages := [world.message() for _ in range(8)]))
    for _ in range(5):  # like a rolling restart during a database outage
        tried = asyncio.Event()

        async def find_it_away(*_: object, tried: asyncio.Event = tried) -> Mapping[int, Exception]:
            tried.set()
            raise DatabaseUnavailable

        async with world.batching(queue, **{step: find_it_away}):
            await tried.wait()
    assert await world.ids(queue) == []
    async with world.batching(queue):
        found = await world.until_applied(queue, 8)
    assert sorted(message.id for message in found) == sorted(message.id for message in messages)
    assert {message.headers.retries for message in found} == {0}
    assert (await world.bus.depths())[world.dead.name] == 0


async def test_a_killed_writers_batch_is_written_once_by_the_next(world: World, doomed: Doomed) -> None:
    queue = batched(world, prefetch=8)
    await world.open(queue)
    await world.publish(*(messages := [world.message() for _ in range(12)]))
    doomed.start(world.topology, queue, batching=True)
    amid = await doomed.until_holding(4)
    assert {message.id for message in messages}.issuperset(amid)
    doomed.kill()
    async with world.batching(queue):
        found = await world.until_applied(queue, 12)
    assert sorted(message.id for message in found) == sorted(message.id for message in messages)
    assert {message.headers.retries for message in found} == {0}
    await world.until_waiting(queue, 0)


async def test_transient_messages_do_not_pile_up_during_an_outage(world: World) -> None:
    queue = batched(world, transient_seconds=3600, dead_letters_to=None, fill_seconds=0.01)
    await world.open(queue)
    turnstile, prepared = Turnstile(), 0

    async def prepare(_message: Message) -> None:
        nonlocal prepared
        prepared += 1

    async with world.batching(queue, prepare=prepare, write=turnstile.write):
        for _ in range(40):
            await world.bus.publish_transient([world.message() for _ in range(50)])
        await turnstile.until_inside(1)
        await until(lambda: prepared >= queue.prefetch)
        await world.bus.publish_transient([world.message() for _ in range(50)])
        # Messages are taken a hundred at a time, so the limit can be exceeded by that many.
        assert prepared <= queue.prefetch + 100
        turnstile.open()
        await until(lambda: prepared == 2050)


async def test_a_message_to_handle_alone_is_a_batch_of_its_own(world: World) -> None:
    queue, written = batched(world, batch=3), Written()

    async def prepare(message: Message) -> Message:
        return message

    handlers = QueueHandlers[Message](
        queue=queue.name,
        keys=None,
        prepare=prepare,
        write=written.write,
        check=EventReader().check,
        is_alone=lambda message: message.headers.seq == 0,
    )
    await world.open(queue)
    messages = [world.message(seq=seq) for seq in (1, 0, 0, 2, 3, 4)]
    await world.publish(*messages)
    async with world.running(queue, handlers):
        await until(lambda: len(written.batches) == 4)
    first, alone, also_alone, *others = [message.id for message in messages]
    assert written.batches == [[first], [alone], [also_alone], others]
