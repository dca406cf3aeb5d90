"""What location keeps of a person can be told and erased, also while Redis is away."""

from uuid import UUID

import httpx

from tests.conftest import bearer
from tests.domains.location.outages import frozen
from tests.domains.location.town import LAT, Town

KEYS = ("seen", "geo")


async def erase(town: Town, driver_id: UUID) -> httpx.Response:
    return await town.api.delete("/v1/me", headers=bearer("driver", driver_id))


async def left_in_redis(town: Town, driver_id: UUID) -> list[object]:
    scores = [await town.redis.command("ZSCORE", f"catraca:location:{key}", str(driver_id)) for key in KEYS]
    ping = await town.redis.command("HGET", "catraca:location:pings", str(driver_id))
    return [left for left in (*scores, ping) if left is not None]


async def test_an_export_tells_presence_and_the_last_position(town: Town) -> None:
    driver_id = await town.new_driver()
    answer = await town.api.get("/v1/me/export", headers=bearer("driver", driver_id))
    told = answer.json()["sections"]["location"]
    assert (told["online"], round(told["last"]["place"]["lat"], 6)) == (True, LAT)
    nobody = await town.api.get("/v1/me/export", headers=bearer("passenger"))
    assert nobody.json()["sections"]["location"] is None


async def test_an_erased_driver_is_gone_from_both_stores(town: Town) -> None:
    driver_id = await town.new_driver()
    assert (await erase(town, driver_id)).status_code == 204
    assert await town.row(driver_id) is None
    assert await left_in_redis(town, driver_id) == []
    assert await town.told(driver_id) == ["online", "offline"]
    assert await town.near(all=True) == []


async def test_what_redis_remembers_of_the_erased_is_found_and_removed(town: Town) -> None:
    driver_id = await town.new_driver()
    async with frozen(town):
        assert (await erase(town, driver_id)).status_code == 204
    assert len(await left_in_redis(town, driver_id)) == 3
    await town.patrol().check_all()
    assert await left_in_redis(town, driver_id) == []
