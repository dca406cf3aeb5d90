"""Locks over HTTP: one ride holds a driver, Redis away is never "already locked", PostgreSQL is believed."""

import asyncio
from datetime import UTC, datetime, timedelta

from tests.domains.location.town import Town, somebody

HELD = {"locked": False, "reason": "already_locked"}


async def test_one_ride_holds_the_driver_and_may_ask_again(town: Town) -> None:
    driver_id, ride_id, other = somebody(), somebody(), somebody()
    first = (await town.lock(driver_id, ride_id, ttl_seconds=60)).json()
    again = (await town.lock(driver_id, ride_id, ttl=30)).json()
    assert first["locked"] is again["locked"] is True
    assert first["fence"] == again["fence"]
    left = datetime.fromisoformat(again["expires_at"]) - datetime.now(UTC)
    assert left > timedelta(seconds=45), "a shorter one does not shorten it"
    assert (await town.lock(driver_id, other)).json() == HELD
    assert (await town.unlock(driver_id, other)).json() == {"released": False}
    assert (await town.lock(driver_id, other)).json() == HELD
    assert (await town.unlock(driver_id, ride_id)).json() == {"released": True}
    later = (await town.lock(driver_id, other)).json()
    assert later["fence"] > first["fence"]


async def test_it_lasts_as_long_as_the_setting_says(town: Town) -> None:
    lease = (await town.lock(somebody(), somebody())).json()
    left = datetime.fromisoformat(lease["expires_at"]) - datetime.now(UTC)
    assert timedelta(seconds=10) < left < timedelta(seconds=16)


async def test_of_many_rides_at_once_one_gets_the_driver(town: Town) -> None:
    driver_id = somebody()
    answers = await asyncio.gather(*(town.lock(driver_id, somebody()) for _ in range(30)))
    assert sorted(answer.json()["locked"] for answer in answers) == [False] * 29 + [True]


async def test_a_driver_held_in_postgresql_is_held_even_if_redis_forgot(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.drive(driver_id)
    assert (await town.lock(driver_id, somebody())).json() == HELD
    assert (await town.lock(driver_id, ride_id)).json()["locked"] is True, "the ride's own driver"


async def test_an_offer_holds_the_driver_too(town: Town) -> None:
    driver_id = await town.new_driver()
    ride_id = await town.rides.request()
    assert (await town.lock(driver_id, ride_id)).json()["locked"] is True
    await town.rides.offer(ride_id, driver_id)
    assert (await town.lock(driver_id, ride_id)).json()["locked"] is True, "who locked and offered may renew"
    await town.redis.command("FLUSHALL")
    assert (await town.lock(driver_id, somebody())).json() == HELD


async def test_how_long_is_bounded(town: Town) -> None:
    for wrong in (0, -1, 3601, "15", True):
        assert (await town.lock(somebody(), somebody(), ttl_seconds=wrong)).status_code == 422
        assert (await town.lock(somebody(), somebody(), ttl=wrong)).status_code == 422
    assert (await town.lock(somebody(), somebody(), ttl=1, ttl_seconds=2)).status_code == 422
