"""Positions delivered to passengers: the newest of each ride's driver, while it is fresh."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest
from structlog.testing import capture_logs

from catraca.domains.location.model import DriverId, Ping
from catraca.domains.location.positions.handlers import tracking
from catraca.domains.location.positions.model import ShownPosition, decode_positions, encode_positions
from catraca.domains.location.positions.service import PositionPublisher, show_positions
from catraca.events import TOPOLOGY, DriverUpdated
from catraca.platform.bus import Headers, Message, Transport
from catraca.platform.bus.queue_worker import QueueWorker
from catraca.platform.clock import now
from catraca.platform.database import Db
from catraca.platform.event import key_of
from catraca.platform.geo import Place
from tests.conftest import bearer
from tests.domains.location.town import LAT, LNG, Town, spot
from tests.servers import Stack, on_one_stack, until

HOUR = timedelta(hours=1)
QUEUE = TOPOLOGY.queue("tracking_realtime_queue")


class Screen:
    """Records delivered positions."""

    def __init__(self) -> None:
        self.batches: list[list[ShownPosition]] = []

    async def show(self, positions: Sequence[ShownPosition]) -> None:
        self.batches.append(list(positions))

    @property
    def shown(self) -> list[ShownPosition]:
        return [position for batch in self.batches for position in batch]


def moved(driver_id: UUID, ride_id: UUID, *, steps: float = 0, **changes: Any) -> DriverUpdated:
    fields = {"lat": LAT + steps, "lng": LNG, "recorded_at": now(), "timestamp": now()}
    return DriverUpdated(driver_id=driver_id, ride_id=ride_id, **fields | changes)


async def shown(town: Town, *updates: DriverUpdated) -> list[ShownPosition]:
    screen = Screen()
    async with town.parts.database.transaction() as db:
        await show_positions(db, updates, screen.show)
    return screen.shown


async def passenger_of(town: Town, ride_id: UUID) -> UUID:
    return UUID((await town.rides.read(ride_id))["passenger_id"])


@asynccontextmanager
async def watching(town: Town, bus: Transport) -> AsyncIterator[Screen]:
    """Consume positions until the block ends."""
    screen, stopping = Screen(), asyncio.Event()
    handlers = tracking.bind(screen.show)
    consumer = QueueWorker(QUEUE, handlers, topology=TOPOLOGY, transport=bus, database=town.parts.database)
    running = asyncio.create_task(consumer.run(stopping))
    try:
        yield screen
    finally:
        stopping.set()
        await running


async def test_only_the_passenger_gets_the_position(town: Town) -> None:
    drivers = [await town.new_driver() for _ in range(2)]
    rides = [await town.drive(driver_id) for driver_id in drivers]
    passengers = [await passenger_of(town, ride_id) for ride_id in rides]
    async with watching(town, town.parts.bus) as screen:

        async def both_were_seen() -> bool:
            for number, driver_id in enumerate(drivers):
                await town.ping(driver_id, spot(number, speed=9.5, heading=90.0))
            return {one.driver_id for one in screen.shown} >= set(drivers)

        await until(both_were_seen)
    for one in screen.shown:
        if one.driver_id not in drivers:
            continue  # A driver of an earlier test.
        number = drivers.index(one.driver_id)
        assert (one.ride_id, one.passenger_id) == (rides[number], passengers[number])
        assert (round(one.lat, 6), one.lng) == (round(spot(number)["lat"], 6), LNG)
        assert (one.speed_mps, one.heading_degrees) == (9.5, 90.0)
        assert one.updated_at <= one.taken_at <= now()


@pytest.fixture
def broker_url(request: pytest.FixtureRequest, stack: Stack) -> str | None:
    """RabbitMQ's with installed servers; the embedded stack has its queues in PostgreSQL."""
    return request.getfixturevalue("amqp_url") if stack.name == "servers" else None


@pytest.fixture
async def bus(broker_url: str | None, town: Town) -> AsyncIterator[Transport]:
    if broker_url is None:
        yield town.parts.bus
        return
    from catraca.platform.bus.rabbitmq import RabbitMqBus

    rabbitmq = RabbitMqBus(broker_url, TOPOLOGY)
    await rabbitmq.declare()
    yield rabbitmq
    await rabbitmq.close()


@pytest.mark.xdist_group("rabbitmq")
async def test_positions_arrive_in_batches_through_each_bus(town: Town, bus: Transport) -> None:
    drivers = [await town.new_driver() for _ in range(5)]
    for driver_id in drivers:
        await town.drive(driver_id)
    publisher = PositionPublisher(town.parts.database.run, bus.publish_transient, every_seconds=0.05)
    async with watching(town, bus) as screen:

        def all_were_seen_at_once() -> bool:
            for driver_id in drivers:
                publisher.add({DriverId(driver_id): Ping(Place(LAT, LNG), now())}, at=now())
            return any({one.driver_id for one in batch} >= set(drivers) for batch in screen.batches)

        await until(all_were_seen_at_once)
        await until(lambda: publisher._task is None)


async def test_unreadable_messages_do_not_stop_others(town: Town, bus: Transport) -> None:
    driver_id = await town.new_driver()
    await town.drive(driver_id)
    key = key_of(DriverUpdated)
    garbage = [
        Message(
            id=uuid4(),
            exchange="location.events",
            key=key,
            body=body,
            headers=Headers(aggregate_id=driver_id),
        )
        for body in (b"{", b"{}", b'{"event_type": "location.driver.updated"}')
    ]
    publisher = PositionPublisher(town.parts.database.run, bus.publish_transient, every_seconds=0.05)
    with capture_logs():
        async with watching(town, bus) as screen:
            await bus.publish_transient(garbage)

            def was_seen() -> bool:
                publisher.add({DriverId(driver_id): Ping(Place(LAT, LNG), now())}, at=now())
                return driver_id in {one.driver_id for one in screen.shown}

            await until(was_seen)
            await until(lambda: publisher._task is None)


async def test_offered_driver_is_not_shown(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.rides.request()
    await town.rides.offer(ride_id, driver_id)
    assert await shown(town, moved(driver_id, ride_id)) == []


async def test_position_before_acceptance_is_not_shown(town: Town) -> None:
    driver_id = await town.new_driver()
    before = now()
    ride_id = await town.drive(driver_id)
    assert await shown(town, moved(driver_id, ride_id, timestamp=before)) == []
    assert len(await shown(town, moved(driver_id, ride_id))) == 1


@pytest.mark.parametrize("status", ["ARRIVING", "STARTED"])
async def test_driver_is_shown_until_the_end_of_the_ride(town: Town, status: str) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.drive(driver_id)
    await town.rides.drive_to(status, ride_id, driver_id)
    assert len(await shown(town, moved(driver_id, ride_id))) == 1
    if status == "STARTED":
        await town.rides.drive_to("COMPLETED", ride_id, driver_id)
    else:
        passenger = bearer("passenger", await passenger_of(town, ride_id))
        assert (await town.rides.cancel(ride_id, passenger)).status_code == 200
    assert await shown(town, moved(driver_id, ride_id)) == []


async def test_after_a_reassignment_only_the_new_driver_is_shown(town: Town) -> None:
    first, second = await town.new_driver(), await town.new_driver()
    ride_id = await town.drive(first)
    await town.rides.give_up(ride_id, first)
    assert await shown(town, moved(first, ride_id)) == []
    await town.rides.offer(ride_id, second)
    assert (await town.rides.accept(ride_id, second)).status_code == 200
    (seen,) = await shown(town, moved(first, ride_id), moved(second, ride_id))
    assert seen.driver_id == second


async def test_driver_is_not_shown_for_another_drivers_ride(town: Town) -> None:
    one, other = await town.new_driver(), await town.new_driver()
    await town.drive(one)
    ride_id = await town.drive(other)
    assert await shown(town, moved(one, ride_id)) == []


async def test_stale_position_is_not_shown(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.drive(driver_id)
    await town.rides.sql(
        "UPDATE rides SET accepted_at = accepted_at - interval '1 hour' WHERE id = $1", ride_id
    )

    def taken(seconds_ago: float) -> DriverUpdated:
        return moved(driver_id, ride_id, timestamp=now() - timedelta(seconds=seconds_ago))

    assert await shown(town, taken(5.1)) == []
    assert len(await shown(town, taken(1))) == 1


async def test_only_the_newest_position_of_a_driver_is_shown(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.drive(driver_id)
    at = now()
    updates = [
        moved(driver_id, ride_id, steps=number, recorded_at=at + timedelta(milliseconds=number))
        for number in (1, 4, 2, 0, 3)
    ]
    (seen,) = await shown(town, *updates)
    assert seen.lat == LAT + 4


class CountingDb:
    """Counts the queries of a connection."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self.queries = 0

    def __getattr__(self, name: str) -> Any:
        self.queries += 1
        return getattr(self._db, name)


@on_one_stack
async def test_batch_needs_one_query(town: Town) -> None:
    drivers = [await town.new_driver() for _ in range(3)]
    updates = [moved(driver_id, await town.drive(driver_id)) for driver_id in drivers]
    screen = Screen()
    async with town.parts.database.transaction() as db:
        counting = CountingDb(db)
        await show_positions(counting, [moved(one.driver_id, one.ride_id) for one in updates], screen.show)
    assert (len(screen.shown), len(screen.batches), counting.queries) == (3, 1, 1)


def position(**changes: Any) -> ShownPosition:
    fields: dict[str, Any] = {name: uuid4() for name in ("ride_id", "passenger_id", "driver_id")}
    fields |= {"lat": LAT, "lng": LNG, "updated_at": now(), "taken_at": now()}
    return ShownPosition(**fields | {"heading_degrees": None, "speed_mps": 3.5} | changes)


def test_position_encoding_is_compact_and_lossless() -> None:
    many = [position(heading_degrees=270.0), position()]
    assert decode_positions(encode_positions(many)) == many
    assert len(encode_positions(many * 10)) < 20 * 130


def later(moment: datetime) -> datetime:
    return moment + timedelta(milliseconds=1)


def test_newer_position_supersedes_an_older_one() -> None:
    first = position()

    def another(**changes: Any) -> ShownPosition:
        return msgspec.structs.replace(first, **changes)

    assert first.supersedes(None)
    assert not first.supersedes(first)
    second = another(updated_at=later(first.updated_at))
    assert second.supersedes(first)
    assert not first.supersedes(second)
    assert another(taken_at=later(first.taken_at)).supersedes(first)
    # Received later, with an older position.
    assert not another(updated_at=first.updated_at - HOUR, taken_at=later(first.taken_at)).supersedes(first)


def test_new_drivers_position_supersedes_despite_its_clock() -> None:
    first = position()
    replacement = msgspec.structs.replace(
        first, driver_id=uuid4(), updated_at=first.updated_at - HOUR, taken_at=later(first.taken_at)
    )
    assert replacement.supersedes(first)
    assert not first.supersedes(replacement)


def test_staleness_is_by_the_servers_clock() -> None:
    at = now()
    one = position(updated_at=at - timedelta(seconds=40), taken_at=at)
    assert not one.is_stale(at + timedelta(seconds=5))
    assert one.is_stale(at + timedelta(seconds=5.001))
