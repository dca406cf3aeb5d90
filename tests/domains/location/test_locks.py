"""Driver locks over HTTP: for one ride at a time, checked against offers and rides in PostgreSQL."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from tests.domains.location.town import Town

LOCKED = {"locked": False, "reason": "already_locked"}


async def test_lock_is_for_one_ride_which_may_renew_it(town: Town) -> None:
    driver_id, ride_id, other = uuid4(), uuid4(), uuid4()
    first = (await town.lock(driver_id, ride_id, ttl_seconds=60)).json()
    again = (await town.lock(driver_id, ride_id, ttl=30)).json()
    assert first["locked"] is again["locked"] is True
    assert first["fence"] == again["fence"]
    left = datetime.fromisoformat(again["expires_at"]) - datetime.now(UTC)
    assert left > timedelta(seconds=45), "a renewal never shortens"
    assert (await town.lock(driver_id, other)).json() == LOCKED
    assert (await town.unlock(driver_id, other)).json() == {"released": False}
    assert (await town.lock(driver_id, other)).json() == LOCKED
    assert (await town.unlock(driver_id, ride_id)).json() == {"released": True}
    later = (await town.lock(driver_id, other)).json()
    assert later["fence"] > first["fence"]


async def test_lock_expires_after_the_configured_time(town: Town) -> None:
    lease = (await town.lock(uuid4(), uuid4())).json()
    left = datetime.fromisoformat(lease["expires_at"]) - datetime.now(UTC)
    assert timedelta(seconds=10) < left < timedelta(seconds=16)


async def test_one_of_many_concurrent_rides_gets_the_lock(town: Town) -> None:
    driver_id = uuid4()
    answers = await asyncio.gather(*(town.lock(driver_id, uuid4()) for _ in range(30)))
    assert sorted(answer.json()["locked"] for answer in answers) == [False] * 29 + [True]


async def test_driving_driver_is_locked_without_a_lock_in_redis(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.drive(driver_id)
    assert (await town.lock(driver_id, uuid4())).json() == LOCKED
    assert (await town.lock(driver_id, ride_id)).json()["locked"] is True, "the ride's own driver"


async def test_offered_driver_is_locked_for_other_rides(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.rides.request()
    assert (await town.lock(driver_id, ride_id)).json()["locked"] is True
    await town.rides.offer(ride_id, driver_id)
    assert (await town.lock(driver_id, ride_id)).json()["locked"] is True, "the same ride may renew"
    await town.redis.command("FLUSHALL")
    assert (await town.lock(driver_id, uuid4())).json() == LOCKED


async def test_lock_duration_is_limited(town: Town) -> None:
    for wrong in (0, -1, 3601, "15", True):
        assert (await town.lock(uuid4(), uuid4(), ttl_seconds=wrong)).status_code == 422
        assert (await town.lock(uuid4(), uuid4(), ttl=wrong)).status_code == 422
    assert (await town.lock(uuid4(), uuid4(), ttl=1, ttl_seconds=2)).status_code == 422
