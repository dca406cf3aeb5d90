"""The simulated city on a real server: drivers and rides move, and no ride stays open."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from catraca.client.demo import MOST_DRIVERS, MOST_RIDES_PER_MINUTE, City
from catraca.client.demo.driver import TEMPERS
from catraca.client.demo.passenger import Passenger
from catraca.client.demo.tally import Tally, percentile
from catraca.platform.auth import sign_token
from catraca.platform.database import Database
from catraca.roles.demo import fill_demo_city
from catraca.roles.parts import Parts
from tests.conftest import SECRET
from tests.servers import on_one_stack, until

RUN_SECONDS = 60
DRIVEN = "rides WHERE status IN ('ACCEPTED', 'ARRIVING', 'STARTED')"


def sign(person_id: UUID, role: str) -> str:
    return sign_token(SECRET, subject=person_id, roles=[role], lifetime=timedelta(hours=1))


def city_at(url: str, **how: object) -> City:
    return City(
        url, sign, **{"drivers": 10, "rides_per_minute": 120.0, "tick_seconds": 0.3, "speed_up": 100.0, **how}
    )


async def count(database: Database, query: str) -> int:
    async with database.connection() as db:
        return await db.fetchval(f"SELECT count(*) FROM {query}")


@on_one_stack
async def test_city_leaves_no_open_ride_or_online_driver(town: Parts) -> None:
    known = uuid4()
    await fill_demo_city(town.database)
    city = city_at(f"http://127.0.0.1:{town.settings.process.port}", known_drivers=[known])
    running = asyncio.create_task(city.run(RUN_SECONDS))
    seen = city.tally
    await until(
        lambda: running.done() or min(seen.completed, seen.in_communities, seen.appointments["booked"]) >= 1
    )
    assert await count(town.database, "driver_presence WHERE online") == 10
    city.stopping.set()
    tally = await running

    assert tally.matched >= 1
    assert len(tally.match_seconds) == tally.matched
    assert tally.completed + tally.canceled + tally.unserved == tally.requested
    assert (tally.left_open, tally.drivers.total()) == (0, 0)
    assert tally.messages["ride.accepted"] >= tally.matched
    assert not tally.failures
    assert not tally.questions["confirmed twice, two rides"]
    assert not tally.appointments["double booked"]
    seats = "appointments WHERE status = 'BOOKED'"
    booked, canceled = tally.appointments["booked"], tally.appointments["canceled"]
    assert await count(town.database, seats) == booked - canceled
    assert await count(town.database, "rides WHERE type = 'comunidade'") == tally.in_communities
    assert await count(town.database, "rides WHERE status NOT IN ('COMPLETED', 'PAID', 'CANCELED')") == 0
    assert await count(town.database, "rides WHERE status IN ('COMPLETED', 'PAID')") == tally.completed
    assert tally.paid >= 1
    assert await count(town.database, "charges WHERE status = 'PAID'") == tally.paid
    assert await count(town.database, "driver_presence WHERE online") == 0
    assert await count(town.database, f"driver_presence WHERE driver_id = '{known}'") == 1


@on_one_stack
async def test_city_ends_rides_left_by_a_killed_city(town: Parts) -> None:
    """A killed city leaves drivers online and rides open; the next one takes them over."""
    url = f"http://127.0.0.1:{town.settings.process.port}"
    first = city_at(url, drivers=5)
    running = asyncio.create_task(first.run())
    await until(lambda: first.tally.drivers["driving"] >= 1)
    running.cancel()
    await asyncio.wait([running])
    assert await count(town.database, DRIVEN) > 0

    second = city_at(url, drivers=5)
    running = asyncio.create_task(second.run(RUN_SECONDS))
    await until(lambda: running.done() or second.tally.matched >= 1)
    second.stopping.set()
    tally = await running
    assert tally.left_open == 0
    assert not tally.failures
    assert await count(town.database, DRIVEN) == 0


def people_of(city: City) -> list[tuple[UUID, str]]:
    return [(driver.id, driver._temper.name) for driver in city._drivers]


async def test_people_depend_on_the_seed_with_known_ones_first() -> None:
    known = [uuid4(), uuid4()]
    one, same, other = (
        city_at("http://127.0.0.1:1", drivers=30, seed=seed, known_drivers=known) for seed in (1, 1, 2)
    )
    assert people_of(one) == people_of(same)
    assert people_of(one) != people_of(other)
    assert [driver_id for driver_id, _ in people_of(one)[:2]] == known
    assert {name for _, name in people_of(one)} == {temper.name for temper in TEMPERS}
    assert len({driver_id for driver_id, _ in people_of(one)}) == 30

    def passengers(city: City) -> list[UUID]:
        chance = city._chance_of("requests")
        found = [city._next_passenger(chance) for _ in range(5)]
        return [passenger.id for passenger in found if isinstance(passenger, Passenger)]

    assert passengers(one) == passengers(same) != passengers(other)


@pytest.mark.parametrize(
    ("drivers", "rides_per_minute"),
    [(0, 1), (MOST_DRIVERS + 1, 1), (1, 0), (1, MOST_RIDES_PER_MINUTE + 1)],
)
async def test_city_size_is_limited(drivers: int, rides_per_minute: float) -> None:
    with pytest.raises(ValueError, match=str(MOST_DRIVERS)):
        city_at("http://127.0.0.1:1", drivers=drivers, rides_per_minute=rides_per_minute)


def test_summary_has_the_noted_counts() -> None:
    tally = Tally()
    for seconds in range(1, 101):
        tally.note_match(seconds)
    assert tally.summary()["match_seconds"] == {"median": 50, "p95": 95}
    assert (percentile([], 50), percentile([4.0], 95)) == (None, 4.0)
