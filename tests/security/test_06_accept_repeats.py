"""A driver who no longer drives a ride gets neither its passenger nor its exact places."""

from uuid import UUID, uuid4

import httpx
import pytest

from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.rides.desk import WAY, Desk
from tests.servers import on_one_stack

pytestmark = on_one_stack

HIDDEN = {"passenger_id", "pickup_lat", "pickup_lon", "dropoff_lat", "dropoff_lon"}


@pytest.fixture
def desk(api: httpx.AsyncClient, database: Database) -> Desk:
    return Desk(api, database)


async def end(desk: Desk, how: str, ride_id: UUID, driver_id: UUID, passenger_id: UUID) -> None:
    passenger = bearer("passenger", passenger_id)
    if how == "given up":
        await desk.give_up(ride_id, driver_id)
    elif how == "canceled":
        assert (await desk.cancel(ride_id, passenger)).status_code == 200
    else:
        await desk.drive_to("COMPLETED", ride_id, driver_id)
    if how == "passenger erased":
        assert (await desk.api.delete("/v1/me", headers=passenger)).status_code == 204


@pytest.mark.parametrize("how", ["given up", "canceled", "completed", "passenger erased"])
async def test_repeated_accept_hides_passenger_and_places(desk: Desk, how: str) -> None:
    passenger_id = uuid4()
    ride_id, (driver_id,) = await desk.offered(passenger_id=passenger_id)
    first = (await desk.accept(ride_id, driver_id, "k")).json()
    assert first.items() >= ({"passenger_id": str(passenger_id)} | WAY).items()
    await end(desk, how, ride_id, driver_id, passenger_id)
    repeat = await desk.accept(ride_id, driver_id, "k")
    assert repeat.status_code == 200
    assert repeat.json() == first | dict.fromkeys(HIDDEN)
    assert len(await desk.attempts(ride_id)) == 1


async def test_repeated_accept_is_complete_during_the_ride(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    first = await desk.accept(ride_id, driver_id, "k")
    for status in ("ARRIVING", "STARTED"):
        await desk.drive_to(status, ride_id, driver_id)
        assert (await desk.accept(ride_id, driver_id, "k")).content == first.content


async def test_repeated_arrival_hides_a_ride_given_up(desk: Desk) -> None:
    """The response of `arrive` names the passenger; it is not stored under the idempotency key."""
    ride_id, driver_id = await desk.accepted()
    key = bearer("driver", driver_id) | {"idempotency-key": "k"}
    assert (await desk.act(ride_id, "arrive", headers=key)).status_code == 200
    assert (await desk.act(ride_id, "arrive", headers=key)).status_code == 200
    await desk.give_up(ride_id, driver_id)
    assert (await desk.act(ride_id, "arrive", headers=key)).status_code == 404


async def test_repeated_start_changes_nothing(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("STARTED", ride_id, driver_id)
    events = await desk.event_keys(ride_id)
    answer = await desk.act(ride_id, "start", headers=bearer("driver", driver_id))
    assert (answer.status_code, answer.json()["status"]) == (200, "STARTED")
    assert await desk.event_keys(ride_id) == events


async def test_driver_reads_an_ended_ride_without_passenger(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    seen = await desk.read(ride_id, bearer("driver", driver_id))
    assert (seen["passenger_id"], seen["pickup_lat"]) == (None, -12.978)
    page = (await desk.api.get("/v1/rides", headers=bearer("driver", driver_id))).json()
    assert [ride["passenger_id"] for ride in page["rides"]] == [None]
