"""`GET /v1/rides/{id}/position`: allowed callers, times, and the store it is read from."""

from datetime import timedelta
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.domains.location.model import Ping
from catraca.domains.location.store import write_ping
from catraca.platform.clock import now
from catraca.platform.geo import Place
from tests.conftest import bearer
from tests.domains.location.town import LAT, LNG, Town, redis_stopped, spot
from tests.servers import until


async def ask(town: Town, ride_id: UUID, headers: dict[str, str] | None = None) -> httpx.Response:
    return await town.api.get(f"/v1/rides/{ride_id}/position", headers=headers or bearer("operator"))


async def test_parties_and_operators_read_the_position(town: Town) -> None:
    driver_id, passenger_id = await town.new_driver(), uuid4()
    ride_id = await town.drive(driver_id, passenger_id)

    async def is_in_redis() -> bool:
        await town.ping(driver_id, spot(1, speed=9.5, heading=90.0))
        return "heading_degrees" in (await ask(town, ride_id)).json()

    await until(is_in_redis)  # On a loaded machine Redis may time out.
    for caller in (("passenger", passenger_id), ("driver", driver_id), ("operator", None), ("service", None)):
        answer = await ask(town, ride_id, bearer(*caller))
        assert answer.status_code == 200, answer.text
        position = answer.json()
        assert (round(position["lat"], 4), position["lng"]) == (round(spot(1)["lat"], 4), LNG)
        assert (position["speed_mps"], position["heading_degrees"]) == (9.5, 90.0)
        assert position["updated_at"].startswith(str(now().year))


async def test_other_callers_get_ride_not_found(town: Town) -> None:
    driver_id, offered = await town.new_driver(), await town.new_driver()
    ride_id = await town.rides.request()
    await town.rides.offer(ride_id, driver_id, offered)
    assert (await town.rides.accept(ride_id, driver_id)).status_code == 200
    for headers in (bearer(), bearer("driver"), bearer("driver", offered)):
        answer = await ask(town, ride_id, headers)
        assert (answer.status_code, answer.json()["code"]) == (404, "ride_not_found")
    assert (await ask(town, uuid4())).status_code == 404


async def test_position_is_readable_from_acceptance_to_end(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.rides.request()
    await town.rides.offer(ride_id, driver_id)
    early = await ask(town, ride_id)
    assert (early.status_code, early.json()["code"]) == (409, "ride_not_under_way")
    assert early.json()["ride_status"] == "OFFERED"
    assert (await town.rides.accept(ride_id, driver_id)).status_code == 200
    for status in ("ACCEPTED", "ARRIVING", "STARTED"):
        await town.rides.drive_to(status, ride_id, driver_id)
        assert (await ask(town, ride_id)).status_code == 200
    await town.rides.drive_to("COMPLETED", ride_id, driver_id)
    assert (await ask(town, ride_id)).status_code == 409


async def test_previous_driver_cannot_read_the_position(town: Town) -> None:
    first, second = await town.new_driver(), await town.new_driver()
    ride_id = await town.drive(first)
    await town.rides.give_up(ride_id, first)
    await town.rides.offer(ride_id, second)
    assert (await town.rides.accept(ride_id, second)).status_code == 200
    assert (await ask(town, ride_id, bearer("driver", first))).status_code == 404


async def test_unknown_position_is_204(town: Town) -> None:
    silent, gone = await town.rides.new_driver(), await town.new_driver()
    await town.go(silent, online=True)
    rides = [await town.drive(silent), await town.drive(gone)]
    await town.go(gone, online=False)
    for ride_id in rides:
        answer = await ask(town, ride_id)
        assert (answer.status_code, answer.content) == (204, b"")


@pytest.mark.parametrize(("seconds_ago", "status"), [(50, 200), (61, 204)])
async def test_old_position_is_204(town: Town, seconds_ago: int, status: int) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.drive(driver_id)
    old = Ping(Place(LAT, LNG), now() - timedelta(seconds=seconds_ago))
    await town.redis.command("HSET", "catraca:location:pings", str(driver_id), write_ping(old))

    async def has_status() -> bool:
        return (await ask(town, ride_id)).status_code == status

    await until(has_status, seconds=10)


async def test_position_without_redis_comes_from_postgresql(town: Town) -> None:
    driver_id = await town.new_driver(steps=2)
    ride_id = await town.drive(driver_id)
    async with redis_stopped(town):
        answer = await ask(town, ride_id)
        assert answer.status_code == 200, answer.text
        assert round(answer.json()["lat"], 6) == round(spot(2)["lat"], 6)
        assert set(answer.json()) == {"lat", "lng", "updated_at"}
