"""Export and erasure of a driver's presence and position, also without Redis."""

from uuid import UUID

import httpx

from tests.conftest import bearer
from tests.domains.location.town import LAT, Town, redis_frozen

KEYS = ("seen", "geo")


async def erase(town: Town, driver_id: UUID) -> httpx.Response:
    return await town.api.delete("/v1/me", headers=bearer("driver", driver_id))


async def left_in_redis(town: Town, driver_id: UUID) -> list[object]:
    scores = [await town.redis.command("ZSCORE", f"catraca:location:{key}", str(driver_id)) for key in KEYS]
    ping = await town.redis.command("HGET", "catraca:location:pings", str(driver_id))
    return [left for left in (*scores, ping) if left is not None]


async def test_export_has_presence_and_the_last_position(town: Town) -> None:
    driver_id = await town.new_driver()
    answer = await town.api.get("/v1/me/export", headers=bearer("driver", driver_id))
    exported = answer.json()["sections"]["location"]
    assert (exported["online"], round(exported["last"]["place"]["lat"], 6)) == (True, LAT)
    passenger = await town.api.get("/v1/me/export", headers=bearer("passenger"))
    assert passenger.json()["sections"]["location"] is None


async def test_erased_driver_is_removed_from_both_stores(town: Town) -> None:
    driver_id = await town.new_driver()
    assert (await erase(town, driver_id)).status_code == 204
    assert await town.row(driver_id) is None
    assert await left_in_redis(town, driver_id) == []
    assert await town.events(driver_id) == ["online", "offline"]
    assert await town.nearby_ids(all=True) == []


async def test_patrol_removes_erased_drivers_from_redis(town: Town) -> None:
    driver_id = await town.new_driver()
    async with redis_frozen(town):
        # Known to be away: a command that was sent would run as soon as Redis continues.
        assert not await town.parts.redis.is_up()
        assert (await erase(town, driver_id)).status_code == 204
    assert len(await left_in_redis(town, driver_id)) == 3
    await town.patrol().check_all()
    assert await left_in_redis(town, driver_id) == []
