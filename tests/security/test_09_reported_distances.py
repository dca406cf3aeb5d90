"""A reported distance is charged only as far as time and pings make it plausible."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from catraca.domains import rides
from catraca.domains.rides import TrackPoint
from catraca.platform.clock import now
from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.rides.desk import SE, Desk
from tests.servers import on_one_stack

pytestmark = on_one_stack

MINUTE = timedelta(minutes=1)


@pytest.fixture
def desk(api: httpx.AsyncClient, database: Database) -> Desk:
    return Desk(api, database)


async def started(desk: Desk, ago: timedelta = timedelta(0)) -> tuple[UUID, UUID]:
    """Return a started ride without a destination, and its driver."""
    ride_id, driver_id = await desk.request(way=SE), await desk.new_driver()
    await desk.offer(ride_id, driver_id)
    await desk.accept(ride_id, driver_id)
    await desk.drive_to("STARTED", ride_id, driver_id)
    await desk.start_earlier(ride_id, ago)
    return ride_id, driver_id


async def complete(desk: Desk, ride_id: UUID, driver_id: UUID, meters: int) -> Any:
    answer = await desk.act(
        ride_id, "complete", headers=bearer("driver", driver_id), json={"distance_meters": meters}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def pinged(desk: Desk, driver_id: UUID, ages: Sequence[int], *, step: float) -> None:
    """Positions of the driver that many seconds ago, each `step` degrees north of the last."""
    at = now()
    for number, age in enumerate(ages):
        point = TrackPoint(driver_id, number * step, 0.0, at - timedelta(seconds=age))
        await desk.database.run(lambda db, point=point: rides.extend_tracks(db, [point]))


async def tracks(desk: Desk, ride_id: UUID) -> int:
    return len(await desk.sql("SELECT 1 FROM ride_tracks WHERE ride_id = $1", ride_id))


async def test_distance_beyond_the_time_is_not_charged(desk: Desk) -> None:
    """The request of the finding: 2000 km at once cost 3605.00."""
    ride_id, driver_id = await started(desk)
    ride = await complete(desk, ride_id, driver_id, 2_000_000)
    assert ride["final_fare_cents"] == 800, "the minimum"
    assert (ride["reported_meters"], ride["charged_meters"]) == (2_000_000, 500)
    (flag,) = await desk.flags(ride_id)
    assert (flag["kind"], flag["measured"], flag["allowed"]) == ("distance_cut", 2_000_000, 500)


async def test_plausible_distance_is_charged_whole(desk: Desk) -> None:
    ride_id, driver_id = await started(desk, 20 * MINUTE)
    ride = await complete(desk, ride_id, driver_id, 12_000)
    assert (ride["reported_meters"], ride["charged_meters"]) == (12_000, 12_000)
    assert await desk.flags(ride_id) == []


async def test_pings_bound_the_distance(desk: Desk) -> None:
    """Ten minutes with pings over 1.1 km: 15 km would fit the time, not the pings."""
    ride_id, driver_id = await started(desk, 10 * MINUTE)
    await pinged(desk, driver_id, range(600, -1, -60), step=0.001)
    ride = await complete(desk, ride_id, driver_id, 15_000)
    assert ride["charged_meters"] in range(2100, 2300), "1.5 times the pings, the slack, a second or two"
    assert [flag["kind"] for flag in await desk.flags(ride_id)] == ["distance_cut"]
    assert await tracks(desk, ride_id) == 0


async def test_time_without_pings_counts_at_the_top_speed(desk: Desk) -> None:
    ride_id, driver_id = await started(desk, 10 * MINUTE)
    await pinged(desk, driver_id, [600, 0], step=0.001)
    ride = await complete(desk, ride_id, driver_id, 15_000)
    assert ride["charged_meters"] == 15_000


async def test_older_and_foreign_positions_change_no_track(desk: Desk) -> None:
    ride_id, driver_id = await started(desk, MINUTE)
    await pinged(desk, driver_id, [600], step=0.001)
    await pinged(desk, await desk.new_driver(), [0], step=0.001)
    assert await tracks(desk, ride_id) == 0, "before the start, and without a ride"
    await pinged(desk, driver_id, [30, 10, 20, 10], step=0.001)
    (row,) = await desk.sql("SELECT meters, covered_seconds FROM ride_tracks WHERE ride_id = $1", ride_id)
    assert (round(row["meters"]), round(row["covered_seconds"])) == (111, 20)
    await desk.act(ride_id, "end", headers=desk.operator, json={"outcome": "canceled", "reason": "other"})
    assert await tracks(desk, ride_id) == 0


async def test_charged_time_ends_at_the_longest_ride(desk: Desk) -> None:
    ride_id, driver_id = await started(desk, timedelta(days=3))
    ride = await complete(desk, ride_id, driver_id, 10_000)
    assert ride["final_fare_cents"] == 500 + 10 * 180 + 6 * 60 * 30


async def test_ride_completed_at_once_is_flagged(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    (flag,) = await desk.flags(ride_id)
    assert (flag["kind"], flag["measured"]) == ("ended_too_soon", 0)


async def test_quoted_ride_of_usual_duration_is_not_flagged(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("STARTED", ride_id, driver_id)
    await desk.start_earlier(ride_id, 10 * MINUTE)
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    assert await desk.flags(ride_id) == []


async def test_schema_refuses_an_impossible_distance(desk: Desk) -> None:
    ride_id, driver_id = await started(desk)
    await complete(desk, ride_id, driver_id, 400)
    for change, constraint in (
        ("reported_meters = 9999, charged_meters = 9999", "charged_distances_fit_the_time"),
        ("charged_meters = 401", "charged_distances_were_reported"),
        ("reported_meters = NULL", "charged_distances_were_reported"),
    ):
        with pytest.raises(asyncpg.CheckViolationError) as refusal:
            await desk.sql(f"UPDATE rides SET {change} WHERE id = $1", ride_id)
        assert refusal.value.constraint_name == constraint
