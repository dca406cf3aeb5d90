"""Brokers that are killed or freeze while messages are published and consumed; consumers that take too long.

On the PostgreSQL bus the broker is the database itself.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from catraca.platform.bus import BusAway, Message, Queue, outage_retry
from catraca.platform.bus import outcome as settling
from catraca.platform.bus.postgres import subscription
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database, DatabaseLimits, Db
from catraca.platform.database.migrations import migrate
from catraca.platform.errors import DatabaseUnavailable, Refusal
from tests.platform.bus.breakable import Breakable, Broker, Debian, Embedded, debian, started
from tests.platform.bus.conftest import connector
from tests.platform.bus.world import EFFECTS, KEY, World
from tests.servers import private_folder, until

pytestmark = pytest.mark.xdist_group("bus-outages")

# Nobody here waits long for a server that does not answer.
IMPATIENT = DatabaseLimits(connections=12, acquire_seconds=0.5, connect_seconds=1.0, statement_seconds=1.0)
# How long a message may be in one consumer's hand before the broker doubts that consumer.
TRUST_SECONDS = 1.0


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    folder = private_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def folder_in(place: Path, name: str) -> Path:
    folder = place / name
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture(scope="module")
async def embedded_server(place: Path) -> AsyncIterator[Breakable]:
    async with started(Embedded(folder_in(place, "e"))) as server:
        yield server


@pytest.fixture(scope="module")
async def debian_server(place: Path) -> AsyncIterator[Debian]:
    async with debian(folder_in(place, "d")) as server:
        yield server


@pytest.fixture(scope="module")
async def rabbitmq_server(place: Path) -> AsyncIterator[Breakable]:
    async with started(Broker(folder_in(place, "r"))) as server:
        yield server


@pytest.fixture(scope="module", params=["embedded", "debian", "rabbitmq"])
def broker(request: pytest.FixtureRequest) -> Breakable:
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def keeper(request: pytest.FixtureRequest, broker: Breakable) -> Breakable:
    """The server of the database: the broker itself, or one beside RabbitMQ."""
    return request.getfixturevalue("debian_server") if isinstance(broker, Broker) else broker


@pytest.fixture
async def world(broker: Breakable, keeper: Breakable) -> AsyncIterator[World]:
    await migrate(keeper.url)
    database = await Database.open(keeper.url, limits=IMPATIENT)
    async with database.transaction() as db:
        await db.execute(EFFECTS.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))
    world = World(database, connector(database, broker.url if isinstance(broker, Broker) else None))
    with capture_logs():
        yield world
        await world.close()
    await database.close()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(outage_retry, "LONGEST_PAUSE_SECONDS", 0.3)
    monkeypatch.setattr(subscription, "LEASE_SECONDS", TRUST_SECONDS)
    monkeypatch.setattr(subscription, "RENEW_SECONDS", TRUST_SECONDS / 5)


@dataclass
class Publishing:
    """Publishes without end, and everything again that was not confirmed, as the relay does."""

    world: World
    confirmed: set[UUID] = field(default_factory=set)
    failures: int = 0

    async def run(self, stopping: asyncio.Event) -> None:
        things = [uuid4() for _ in range(4)]
        unsent: list[Message] = []
        seq = 0
        while unsent or not stopping.is_set():
            if not unsent:
                seq += 1
                unsent = [self.world.message(about=thing, seq=seq) for thing in things]
            outcomes = await self.world.bus.publish(unsent)
            assert all(outcome is None or isinstance(outcome, BusAway) for outcome in outcomes)
            self.failures += any(outcomes)
            pairs = list(zip(unsent, outcomes, strict=True))
            self.confirmed.update(message.id for message, outcome in pairs if outcome is None)
            unsent = [message for message, outcome in pairs if outcome is not None]
            await asyncio.sleep(0.01)

    async def failure(self) -> None:
        failures = self.failures
        await until(lambda: self.failures > failures)


@asynccontextmanager
async def busy(world: World, queue: Queue) -> AsyncIterator[Publishing]:
    """Publishing and consuming, and at the end: nothing confirmed is lost, nothing applied twice."""
    publishing = Publishing(world)
    stopping = asyncio.Event()
    async with world.consuming(queue):
        running = asyncio.create_task(publishing.run(stopping))
        try:
            await applied_more(world, queue)
            yield publishing
            await applied_more(world, queue)
        finally:
            stopping.set()
            await running
        await until(lambda: all_applied(world, queue, len(publishing.confirmed)))
    found = await world.applied(queue)
    assert {message.id for message in found} == publishing.confirmed
    assert len(found) == len(publishing.confirmed)
    assert {message.headers.retries for message in found} == {0}


async def applied_more(world: World, queue: Queue) -> None:
    """A good deal more than now."""
    before = await until(lambda: count(world, queue)) or 0
    await until(lambda: all_applied(world, queue, before + 20))


async def all_applied(world: World, queue: Queue, wanted: int) -> bool:
    return (await count(world, queue)) >= wanted


async def count(world: World, queue: Queue) -> int:
    try:
        return len(await world.ids(queue))
    except Refusal:
        return 0


async def test_killed_broker_loses_and_repeats_nothing(world: World, broker: Breakable) -> None:
    queue = world.queue("survivor", prefetch=8)
    positions = world.queue("positions", "position", transient_seconds=30, dead_letters_to=None)
    await world.open(queue, positions, keys=(KEY, "position"))
    async with busy(world, queue) as publishing:
        await broker.kill()
        try:
            await publishing.failure()
            assert not await world.bus.is_up()
            with pytest.raises(BusAway):
                await world.bus.depths()
            # Messages that may be lost are dropped: no error, no wait.
            async with asyncio.timeout(30):
                await world.bus.publish_transient([world.message("position") for _ in range(3)])
        finally:
            await broker.start()
    await world.until_waiting(queue, 0)
    async with world.consuming(positions):

        async def fresh_arrives() -> bool:
            await world.bus.publish_transient([world.message("position")])
            return await count(world, positions) > 0

        await until(fresh_arrives)


async def test_bus_reconnects_to_a_broker_that_froze(world: World, broker: Breakable) -> None:
    queue = world.queue("frozen", prefetch=8)
    await world.open(queue)
    async with busy(world, queue) as publishing:
        broker.pause()
        try:
            await publishing.failure()
        finally:
            broker.resume()
    await world.until_waiting(queue, 0)


@pytest.mark.parametrize("cause", ["a server is away", "the work is slow"])
async def test_a_message_past_the_consumer_timeout_is_applied_once(world: World, cause: str) -> None:
    queue = world.queue("held", concurrency=1, prefetch=4)
    await world.open(queue)
    began, released = asyncio.Event(), asyncio.Event()

    async def hold(_db: Db, _message: Message) -> None:
        began.set()
        if cause == "the work is slow":
            await released.wait()
        elif not released.is_set():
            raise DatabaseUnavailable

    await world.publish(*(messages := [world.message() for _ in range(6)]))
    async with world.consuming(queue, hold), world.consuming(queue, hold, bus=world.connect()):
        await began.wait()
        doubted_at = monotonic_seconds() + TRUST_SECONDS * 2.5
        await until(lambda: monotonic_seconds() > doubted_at)
        released.set()
        await until(lambda: all_applied(world, queue, 6))
        await world.publish(last := world.message())
        await until(lambda: all_applied(world, queue, 7))
    found = await world.applied(queue)
    assert sorted(message.id for message in found) == sorted(one.id for one in [*messages, last])
    assert {message.headers.retries for message in found} == {0}
    assert (await world.bus.depths())[world.dead.name] == 0


async def test_frozen_database_counts_no_retries(
    world: World, keeper: Breakable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", 2)
    queue = world.queue("patient", concurrency=1)
    await world.open(queue)
    frozen: list[int] = []
    published = asyncio.Event()

    async def freeze_at_first(db: Db, message: Message) -> None:
        await published.wait()  # the publisher needs the database for its answer
        if not frozen:
            frozen.append(message.headers.retries)
            keeper.pause()
        await db.fetchval("SELECT true")

    pauses, lapsed = settling.PAUSES.labels(queue.name), settling.OUTCOMES.labels(queue.name, "lapsed")

    def asked_often() -> bool:
        """Or once, and then a broker took the message back and waits with it until the database is up."""
        return pauses._value.get() >= 3 or lapsed._value.get() >= 1

    try:
        async with world.consuming(queue, freeze_at_first):
            await world.publish(message := world.message())
            published.set()
            await until(asked_often)
            keeper.resume()
            await until(lambda: all_applied(world, queue, 1))
    finally:
        keeper.resume()
    (found,) = await world.applied(queue)
    assert (found.id, found.headers.retries) == (message.id, 0)


async def test_a_killed_database_pauses_the_batch_without_faults(world: World, keeper: Breakable) -> None:
    queue = world.queue("batched", batch=8, prefetch=24, concurrency=2, fill_seconds=0.2)
    await world.open(queue)
    pauses, killed = settling.PAUSES.labels(queue.name), asyncio.Event()
    dying = asyncio.Event()

    async def kill_at_first(db: Db, _messages: Sequence[Message]) -> Mapping[int, Exception]:
        if not dying.is_set():
            dying.set()
            await keeper.kill()
            killed.set()
        await db.fetchval("SELECT true")
        return {}

    async with world.batching(queue, kill_at_first):
        await world.publish(*(messages := [world.message() for _ in range(24)]))
        await killed.wait()
        try:
            await until(lambda: pauses._value.get() >= 4)
        finally:
            await keeper.start()
        await until(lambda: all_applied(world, queue, 24))
    found = await world.applied(queue)
    assert sorted(message.id for message in found) == sorted(message.id for message in messages)
    assert {message.headers.retries for message in found} == {0}
    assert (await world.bus.depths())[world.dead.name] == 0
    await world.until_waiting(queue, 0)
