"""A passenger who cancels again and again has to wait before the next request."""

from datetime import timedelta
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.domains.rides import CancellationRule
from catraca.domains.rides.requests.store import read_obstacle
from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.rides.desk import WAY, Desk
from tests.servers import on_one_stack

pytestmark = on_one_stack

RULE = CancellationRule(free=3, pause=timedelta(seconds=15))
GOVERNED = {"type": "normal", "passengerLat": WAY["pickup_lat"], "passengerLng": WAY["pickup_lon"]}


@pytest.fixture
def desk(api: httpx.AsyncClient, database: Database) -> Desk:
    return Desk(api, database)


async def request(desk: Desk, passenger_id: UUID) -> httpx.Response:
    return await desk.api.post("/v1/rides", json=WAY, headers=bearer("passenger", passenger_id))


async def request_and_cancel(desk: Desk, passenger_id: UUID, times: int = 1) -> UUID:
    for _ in range(times):
        ride_id = await desk.request(passenger_id)
        answer = await desk.cancel(ride_id, bearer("passenger", passenger_id), "changed_plans")
        assert answer.status_code == 200
    return ride_id


async def pass_time(desk: Desk, passenger_id: UUID, time: timedelta) -> None:
    """Set the passenger's cancellations back."""
    await desk.sql(
        "UPDATE rides SET canceled_at = canceled_at - $2::interval WHERE passenger_id = $1",
        passenger_id,
        time,
    )


async def test_loop_of_request_and_cancel_is_paused(desk: Desk) -> None:
    """The requests of the finding: 185 loops in 12 s rang the nearest driver 100 times."""
    passenger_id = uuid4()
    await request_and_cancel(desk, passenger_id, 4)
    answer = await request(desk, passenger_id)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["cancellations"]) == (429, "ride_requests_paused", 4)
    assert answer.headers["retry-after"] in ("14", "15")
    assert f"{answer.headers['retry-after']} s" in problem["detail"]
    assert (await request(desk, uuid4())).status_code == 201, "other passengers do not wait"
    await pass_time(desk, passenger_id, timedelta(seconds=15))
    assert (await request(desk, passenger_id)).status_code == 201


async def test_pause_doubles_up_to_five_minutes(desk: Desk) -> None:
    passenger_id, pauses = uuid4(), list[float]()
    for _ in range(11):
        await request_and_cancel(desk, passenger_id)
        async with desk.database.connection() as db:
            seconds = (await read_obstacle(db, passenger_id, RULE)).pause_seconds
        pauses.append(seconds)
        await pass_time(desk, passenger_id, timedelta(seconds=seconds))
    wanted = [0, 0, 0, 15, 30, 60, 120, 240, 300, 300, 300]
    assert pauses == [pytest.approx(pause, abs=2) for pause in wanted]


async def test_old_cancellations_do_not_count(desk: Desk) -> None:
    passenger_id = uuid4()
    await request_and_cancel(desk, passenger_id, 4)
    await pass_time(desk, passenger_id, timedelta(hours=1))
    await request_and_cancel(desk, passenger_id, 3)
    assert (await request(desk, passenger_id)).status_code == 201


async def test_other_ends_of_a_ride_do_not_count(desk: Desk) -> None:
    passenger_id = uuid4()
    for _ in range(5):
        assert (await desk.cancel(await desk.request(passenger_id), desk.operator)).status_code == 200
    for _ in range(5):
        ride_id = await desk.request(passenger_id)
        await desk.end_time_of_search(ride_id)
        await desk.settle(ride_id)
    assert (await request(desk, passenger_id)).status_code == 201


async def test_unfinished_ride_is_named_before_the_pause(desk: Desk) -> None:
    passenger_id = uuid4()
    await request_and_cancel(desk, passenger_id, 3)
    ride_id = await desk.request(passenger_id)
    answer = await request(desk, passenger_id)
    assert (answer.status_code, answer.json()["ride_id"]) == (409, str(ride_id))


@pytest.mark.parametrize("caller", ["passenger", "operator"])
async def test_governance_route_is_paused_too(desk: Desk, caller: str) -> None:
    passenger_id = uuid4()
    await request_and_cancel(desk, passenger_id, 4)
    headers = bearer("passenger", passenger_id) if caller == "passenger" else desk.operator
    body = GOVERNED | ({} if caller == "passenger" else {"passengerId": str(passenger_id)})
    answer = await desk.api.post("/api/governance/ride/request", json=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (429, "ride_requests_paused")
