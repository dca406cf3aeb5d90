"""How messages are taken, on every bus: shared, bounded, returned, and never lost with their consumer."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from catraca.platform.bus import Message
from catraca.platform.bus.postgres import subscription
from catraca.platform.database import Db
from catraca.platform.errors import DatabaseUnavailable
from tests.platform.bus.doomed import Doomed
from tests.platform.bus.world import Handle, World, on_every_bus
from tests.servers import until

pytestmark = on_every_bus


@pytest.fixture
def doomed(tmp_path: Path, bus_database_url: str, broker_url: str | None) -> Iterator[Doomed]:
    doomed = Doomed(tmp_path, bus_database_url, broker_url)
    yield doomed
    doomed.kill()


async def test_competing_consumers_never_share_a_message(world: World) -> None:
    queue = world.queue("shared", prefetch=4, concurrency=2)
    await world.open(queue)
    taken: list[list[UUID]] = [[], [], []]

    def taker(mine: list[UUID]) -> Handle:
        async def take(_db: Db, message: Message) -> None:
            mine.append(message.id)
            await until(lambda: all(taken))  # each must get some while another is busy

        return take

    messages = [world.message() for _ in range(60)]
    async with AsyncExitStack() as consumers:
        for mine in taken:
            await consumers.enter_async_context(world.consuming(queue, taker(mine), bus=world.connect()))
        await world.publish(*messages)
        await world.until_applied(queue, 60)
    assert sorted(await world.ids(queue)) == sorted(message.id for message in messages)
    assert sum(len(mine) for mine in taken) == 60


async def test_a_stuck_consumer_holds_at_most_its_prefetch(world: World) -> None:
    queue = world.queue("held", prefetch=3, concurrency=1)
    await world.open(queue)
    gate = Gate()
    async with world.consuming(queue, gate.hold):
        await world.publish(*(messages := [world.message() for _ in range(10)]))
        await gate.until_holding(1)
        # Another consumer gets all but three messages: one in work, two waiting.
        async with world.consuming(queue, bus=world.connect()):
            await world.until_applied(queue, 7)
        assert len(await world.ids(queue)) == 7
        gate.open()
        await world.until_applied(queue, 10)
    assert sorted(await world.ids(queue)) == sorted(message.id for message in messages)


@pytest.fixture
def endless_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that are not given back never come back."""
    monkeypatch.setattr(subscription, "LEASE_SECONDS", 3600)


@pytest.mark.usefixtures("endless_leases")
async def test_stopped_consumer_finishes_work_and_returns_the_rest(world: World) -> None:
    queue = world.queue("drained", prefetch=8, concurrency=2)
    await world.open(queue)
    messages = [world.message() for _ in range(8)]
    await world.publish(*messages)
    gate = Gate()
    async with world.consuming(queue, gate.hold) as stopping:
        await gate.until_holding(2)
        stopping.set()
        async with world.consuming(queue, bus=world.connect()):
            await world.until_applied(queue, 6)
        assert gate.held.isdisjoint(await world.ids(queue))
        gate.open()
    found = await world.applied(queue)
    assert sorted(message.id for message in found) == sorted(message.id for message in messages)
    assert {message.headers.retries for message in found} == {0}
    await world.until_waiting(queue, 0)
    assert (await world.bus.depths())[world.dead.name] == 0


@pytest.mark.usefixtures("endless_leases")
async def test_a_consumer_stopped_in_a_pause_returns_everything(world: World) -> None:
    queue = world.queue("paused", prefetch=8, concurrency=1, batch=4)
    await world.open(queue)
    messages = [world.message() for _ in range(8)]
    await world.publish(*messages)
    for _ in range(5):  # like a rolling restart during a database outage
        tried = asyncio.Event()

        async def find_it_away(_db: Db, _message: Message, tried: asyncio.Event = tried) -> None:
            tried.set()
            raise DatabaseUnavailable

        async with world.consuming(queue, find_it_away):
            await tried.wait()
    assert await world.ids(queue) == []
    async with world.consuming(queue):
        found = await world.until_applied(queue, 8)
    assert sorted(message.id for message in found) == sorted(message.id for message in messages)
    assert {message.headers.retries for message in found} == {0}
    assert (await world.bus.depths())[world.dead.name] == 0


async def test_a_dead_consumers_messages_go_to_the_next_one(world: World, doomed: Doomed) -> None:
    queue = world.queue("orphaned", prefetch=5, concurrency=2)
    await world.open(queue)
    messages = [world.message() for _ in range(6)]
    await world.publish(*messages)
    doomed.start(world.topology, queue)
    await doomed.until_holding(2)
    doomed.kill()
    async with world.consuming(queue):
        await world.until_applied(queue, 6)
    await world.until_waiting(queue, 0)
    found = await world.applied(queue)
    assert sorted(message.id for message in found) == sorted(message.id for message in messages)
    assert {message.headers.retries for message in found} == {0}


async def test_a_message_that_kills_every_consumer_is_dead_lettered(world: World, doomed: Doomed) -> None:
    queue = world.queue("deadly", prefetch=1, concurrency=1)
    await world.open(queue, delivery_limit=1)
    await world.publish(message := world.message(body=b'{"deadly": true}'))

    async def dead() -> int:
        return (await world.bus.depths())[world.dead.name]

    async def held_or_dead() -> bool:
        return bool(doomed.holds() or await dead())

    deaths = 0
    while not await dead():
        doomed.start(world.topology, queue)
        await until(held_or_dead)
        doomed.kill()
        deaths += 1
        assert deaths <= 3
    (letter,) = await world.buried(1)
    assert (letter.id, letter.body, letter.key) == (message.id, message.body, message.key)
    assert (letter.headers.queue, letter.headers.reason) == (queue.name, "delivery_limit")


async def test_single_active_consumer_keeps_the_order(world: World) -> None:
    queue = world.queue("ordered", single_active=True, batch=3, prefetch=6)
    await world.open(queue)
    things = [uuid4() for _ in range(3)]

    async def hurry_differently(_db: Db, message: Message) -> None:
        await asyncio.sleep(0.001 * (message.headers.seq % 3))

    async with AsyncExitStack() as consumers:
        for _ in range(3):
            await consumers.enter_async_context(
                world.consuming(queue, hurry_differently, bus=world.connect())
            )
        for seq in range(1, 31):
            await world.publish(*(world.message(about=thing, seq=seq) for thing in things))
        await world.until_applied(queue, 90)
    assert_in_order(await world.applied(queue), things, 30)


async def test_the_next_active_consumer_continues_in_order(world: World, doomed: Doomed) -> None:
    queue, other = world.queue("inherited", single_active=True, prefetch=4), world.queue("other", "other")
    await world.open(queue, other, keys=("thing.happened", "other"))
    thing = uuid4()
    await world.publish(*(world.message(about=thing, seq=seq) for seq in range(1, 11)))
    doomed.start(world.topology, queue)
    (first,) = await doomed.until_holding(1)
    async with world.consuming(queue), world.consuming(other):
        await world.publish(*(world.message(about=thing, seq=seq) for seq in range(11, 16)))
        await world.publish(world.message("other"))
        await world.until_applied(other, 1)
        assert await world.ids(queue) == [], "there is one active consumer, and it lives"
        doomed.kill()
        found = await world.until_applied(queue, 15)
    assert found[0].id == first
    assert_in_order(found, [thing], 15)


def assert_in_order(found: list[Message], things: list[UUID], count: int) -> None:
    for thing in things:
        seqs = [message.headers.seq for message in found if message.headers.aggregate_id == thing]
        assert seqs == list(range(1, count + 1))


class Gate:
    """Blocks handlers until it is opened."""

    def __init__(self) -> None:
        self.held: set[UUID] = set()
        self._opened = asyncio.Event()

    async def hold(self, _db: Db, message: Message) -> None:
        self.held.add(message.id)
        await self._opened.wait()

    async def until_holding(self, count: int) -> None:
        await until(lambda: len(self.held) == count)

    def open(self) -> None:
        self._opened.set()


async def test_concurrent_handlers_neither_lose_nor_repeat_messages(world: World) -> None:
    queue = world.queue("busy", batch=10, prefetch=200, concurrency=8)
    await world.open(queue)
    messages = [world.message() for _ in range(3000)]
    for start in range(0, len(messages), 500):
        await world.publish(*messages[start : start + 500])
    with capture_logs() as logs:
        async with world.consuming(queue):
            await world.until_applied(queue, len(messages))
            await world.until_waiting(queue, 0)
    assert sorted(await world.ids(queue)) == sorted(message.id for message in messages)
    assert [line for line in logs if line["event"] == "consumer_lost"] == []
