"""Search for drivers: nearest first, only available ones, and none hidden by busy ones."""

from datetime import timedelta
from uuid import UUID

import pytest

from catraca.domains.location.store import nearest_pings
from catraca.platform.geo import Place
from tests.conftest import bearer
from tests.domains.location.town import LAT, LNG, Town, spot


async def add_drivers(town: Town, count: int) -> list[UUID]:
    """Online drivers, each a tenth of a step further out."""
    drivers = await town.rides.new_drivers(count)
    async with town.parts.database.connection() as db:
        await db.execute(
            "INSERT INTO driver_presence (driver_id, online, free_since)"
            " SELECT id, true, clock_timestamp() FROM unnest($1::uuid[]) AS id",
            drivers,
        )
    sent = [{"driver_id": str(one), **spot(n / 10)} for n, one in enumerate(drivers)]
    answer = await town.api.post("/v1/location/pings", json=sent, headers=bearer("service"))
    assert answer.json()["accepted"] == count
    return drivers


async def test_nearest_driver_comes_first_with_distance_and_age(town: Town) -> None:
    far, near = await town.new_driver(steps=20), await town.new_driver(steps=3)
    await town.new_driver(steps=200)
    found = await town.nearby(radius_m=5000)
    assert found["source"] == "redis"
    assert [UUID(one["driver_id"]) for one in found["drivers"]] == [near, far]
    assert [round(one["distance_meters"], -1) for one in found["drivers"]] == [300, 2000]
    assert all(0 <= one["position_age_seconds"] < 60 and one["available"] for one in found["drivers"])
    assert await town.nearby_ids(radius_m=1000) == [near]
    assert await town.nearby_ids(limit=1) == [near]


@pytest.mark.parametrize(("enough", "is_wide"), [(1, False), (2, True), (3, True)])
async def test_one_call_widens_the_search_if_drivers_are_few(town: Town, enough: int, is_wide: bool) -> None:
    near, far = await town.new_driver(steps=3), await town.new_driver(steps=20)
    await town.new_driver(steps=200)
    found = await nearest_pings(
        town.parts.redis, Place(LAT, LNG), narrow_meters=1000, wide_meters=5000, enough=enough, limit=10
    )
    assert found.is_wide == is_wide
    assert [one for one, _ in found.pings] == ([near, far] if is_wide else [near])


async def test_busy_driver_is_not_available_despite_pings(town: Town) -> None:
    driving, offered, free = [await town.new_driver(steps=n) for n in range(3)]
    await town.drive(driving)
    await town.rides.offer(await town.rides.request(), offered)
    for _ in range(5):
        for driver_id in (driving, offered):
            assert (await town.ping(driver_id))["accepted"] == 1
        assert await town.nearby_ids() == [free]
    await town.patrol().check_all()
    assert await town.nearby_ids() == [free]
    drivers = (await town.nearby(all=True))["drivers"]
    assert {UUID(one["driver_id"]): one["available"] for one in drivers} == {
        driving: False,
        offered: False,
        free: True,
    }


async def test_busy_drivers_do_not_hide_free_ones_further_out(town: Town) -> None:
    drivers = await add_drivers(town, 150)
    ride_id = await town.rides.request()
    await town.rides.offer(ride_id, *drivers[:100])
    await town.rides.offer(ride_id, *drivers[100:140])
    assert await town.nearby_ids(limit=5) == drivers[140:145]
    assert await town.nearby_ids(limit=100) == drivers[140:]


async def test_driver_with_an_old_position_is_not_available(town: Town) -> None:
    driver_id = await town.new_driver(at=timedelta(seconds=-59))
    assert await town.nearby_ids(all=True) == [driver_id]
    key = ("catraca:location:pings", str(driver_id))
    ping = await town.redis.command("HGET", *key)
    assert isinstance(ping, bytes)
    at, rest = ping.decode().split(" ", 1)
    await town.redis.command("HSET", *key, f"{float(at) - 30:.6f} {rest}")
    assert await town.nearby_ids() == []
    assert await town.nearby_ids(all=True) == [driver_id]


async def test_offline_driver_in_the_index_is_not_found(town: Town) -> None:
    """PostgreSQL decides whether a driver is online."""
    driver_id = await town.new_driver()
    async with town.parts.database.connection() as db:
        await db.execute(
            "UPDATE driver_presence SET online = false, free_since = NULL,"
            " lat = NULL, lng = NULL, position_at = NULL, cell = NULL WHERE driver_id = $1",
            driver_id,
        )
    assert await town.nearby_ids(all=True) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"lat": 91},
        {"lng": 181},
        {"lat": "nan"},
        {"lat": "inf"},
        {"lng": "here"},
        {"radius_m": 0},
        {"radius_m": 50_001},
        {"radius_m": "nan"},
        {"limit": 0},
        {"limit": 101},
        {"all": "perhaps"},
    ],
)
async def test_invalid_query_is_refused(town: Town, wrong: dict[str, object]) -> None:
    answer = await town.api.get(
        "/v1/location/drivers/nearby",
        params={"lat": LAT, "lng": LNG, **wrong},
        headers=bearer("operator"),
    )
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
