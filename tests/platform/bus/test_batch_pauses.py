"""An unavailable server pauses a pipeline, on every bus: nothing is counted, halved or lost."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

import pytest

from catraca.platform.bus import BusAway, Message, Queue, outage_retry
from catraca.platform.bus.outcome import PAUSES
from catraca.platform.database import Db
from catraca.platform.errors import Busy, DatabaseUnavailable, OutcomeUnknown
from catraca.platform.redis_client import RedisAway
from tests.platform.bus.world import World, on_every_bus

pytestmark = on_every_bus

AWAY = [Busy, DatabaseUnavailable, OutcomeUnknown, RedisAway, BusAway]
# More than the retries of a message.
FAULTS = 5


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "FIRST_PAUSE_SECONDS", 0.001)


def batched(world: World, **options: Any) -> Queue:
    chosen = {"batch": 4, "prefetch": 16, "concurrency": 1, "fill_seconds": 3600} | options
    return world.queue("batched", **chosen)


class Unlucky:
    """Raises that a server is unavailable in the first calls of each method."""

    def __init__(self, fall_away: Callable[[], Exception]) -> None:
        self.prepared: list[int] = []
        self.attempts: list[list[UUID]] = []
        self._fall_away = fall_away

    async def prepare(self, message: Message) -> None:
        self.prepared.append(message.headers.retries)
        if len(self.prepared) <= FAULTS:
            raise self._fall_away()

    async def write(self, _db: Db, messages: Sequence[Message]) -> Mapping[int, Exception]:
        self.attempts.append([message.id for message in messages])
        if len(self.attempts) <= FAULTS:
            raise self._fall_away()
        return {}


@pytest.mark.parametrize("kind", AWAY)
async def test_server_outage_pauses_and_counts_no_retry(world: World, kind: type[Exception]) -> None:
    queue, unlucky = batched(world), Unlucky(kind)
    await world.open(queue)
    await world.publish(*(messages := [world.message() for _ in range(4)]))
    async with world.batching(queue, unlucky.write, prepare=unlucky.prepare):
        found = await world.until_applied(queue, 4)
    assert unlucky.prepared == [0] * (4 + FAULTS)
    everything = [message.id for message in messages]
    assert unlucky.attempts == [everything] * (FAULTS + 1), "kept together, and tried again as it is"
    assert found == messages
    assert PAUSES.labels(queue.name)._value.get() >= 2 * FAULTS - 1
    assert (await world.bus.depths())[world.dead.name] == 0


async def test_connection_lost_during_a_batch_counts_no_retry(world: World) -> None:
    queue = batched(world)
    await world.open(queue)
    attempts: list[list[UUID]] = []

    async def break_connection(db: Db, messages: Sequence[Message]) -> Mapping[int, Exception]:
        attempts.append([message.id for message in messages])
        if len(attempts) <= FAULTS:
            await db.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return {}

    await world.publish(*(messages := [world.message() for _ in range(4)]))
    async with world.batching(queue, break_connection):
        found = await world.until_applied(queue, 4)
    assert found == messages
    assert attempts == [[message.id for message in messages]] * (FAULTS + 1)


async def test_a_message_that_keeps_the_database_busy_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", 3)
    queue = batched(world)
    await world.open(queue, retry_delays_seconds=())
    messages = [world.message() for _ in range(4)]
    bad = messages[1]
    attempts: list[list[UUID]] = []

    async def block(_db: Db, batch: Sequence[Message]) -> Mapping[int, Exception]:
        attempts.append([message.id for message in batch])
        if bad.id in attempts[-1]:
            raise Busy
        return {}

    async with world.batching(queue, block):
        await world.publish(*messages)
        await world.until_applied(queue, 3)
        await world.until_waiting(world.dead, 1)
    first, second, third, fourth = (message.id for message in messages)
    assert attempts == [
        *[[first, second, third, fourth]] * 3,
        *[[first, second]] * 3,
        [first],
        *[[second]] * 3,
        [third, fourth],
    ]
    assert await world.ids(queue) == [first, third, fourth]
    (letter,) = await world.buried(1)
    assert (letter.id, letter.headers.reason) == (bad.id, "busy")


async def test_a_preparation_that_is_always_busy_fails_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", 3)
    queue = batched(world)
    await world.open(queue, retry_delays_seconds=())
    bad, good = world.message(), [world.message() for _ in range(4)]

    async def block(message: Message) -> None:
        if message.id == bad.id:
            raise Busy

    async with world.batching(queue, prepare=block):
        await world.publish(bad, *good)
        await world.until_applied(queue, 4)
    assert await world.ids(queue) == [message.id for message in good]
    (letter,) = await world.buried(1)
    assert (letter.id, letter.headers.reason) == (bad.id, "busy")


@pytest.mark.parametrize("kind", [RedisAway, BusAway])
async def test_outages_of_other_servers_count_no_retry(
    world: World, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outage_retry, "BUSY_AT_MOST", 1)
    queue, unlucky = batched(world), Unlucky(kind)
    await world.open(queue)
    async with world.batching(queue, unlucky.write, prepare=unlucky.prepare):
        await world.publish(*(messages := [world.message() for _ in range(4)]))
        assert await world.until_applied(queue, 4) == messages
