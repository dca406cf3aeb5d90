"""Redis away in each way: nobody is lost, nobody is shown who is not free, and locks say "try again"."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.domains.location.outages import flushed, frozen, stopped
from tests.domains.location.town import LAT, STEP, Town, somebody, spot
from tests.servers import until
from tests.support.http import served

SECOND = timedelta(seconds=1)


WAYS = [frozen, stopped, flushed]
each_way = pytest.mark.parametrize("away", WAYS, ids=lambda way: way.__name__)
Way = Callable[[Town], AsyncIterator[None]]


@each_way
async def test_pings_go_to_postgresql_and_searches_find_them_there(town: Town, away: Way) -> None:
    driver_id = await town.new_driver(at=-50 * SECOND)
    driving = await town.new_driver(at=-50 * SECOND)
    await town.drive(driving)
    await town.age(driver_id, "seen_at", 30 * SECOND)
    async with away(town):
        answer = await town.ping(driver_id, spot(2), spot(1, at=-99 * SECOND))
        assert answer == {
            "accepted": 1,
            "rejected": [{"index": 1, "code": "stale"}],
            "kept_in": "database",
        }
        await town.ping(driving)
        found = await town.nearby()
        assert found["source"] == "database"
        (one,) = found["drivers"]
        assert (one["driver_id"], round(one["lat"], 6)) == (str(driver_id), round(LAT + 2 * STEP, 6))
        assert len((await town.nearby(all=True))["drivers"]) == 2
        assert await town.near(radius_m=100) == []
    await town.patrol().rebuild_index()
    assert (await town.ping(driver_id, spot(2.5)))["kept_in"] == "redis"
    assert (await town.nearby())["source"] == "redis"
    assert await town.near() == [driver_id]


@each_way
async def test_somebody_goes_online_and_offline_all_the_same(town: Town, away: Way) -> None:
    leaving = await town.new_driver()
    coming = await town.rides.new_driver()
    async with away(town):
        await town.go(leaving, online=False)
        answer = await town.try_to_ping(leaving, spot())
        assert (answer.status_code, answer.json()["code"]) == (409, "driver_offline")
        await town.go(coming, online=True, position=spot())
        assert await town.near() == [coming]
    patrol = town.patrol()
    await patrol.rebuild_index()
    await patrol.check_all()
    assert await town.near(all=True) == [coming]
    assert (await town.nearby())["source"] == "redis"
    assert await town.told(leaving) == ["online", "offline"]
    assert (await town.try_to_ping(leaving, spot())).status_code == 409, "the map does not know them either"


@pytest.mark.parametrize("away", [frozen, stopped], ids=["frozen", "stopped"])
async def test_locks_say_try_again_and_never_already_locked(town: Town, away: Way) -> None:
    driver_id, ride_id = somebody(), somebody()
    assert (await town.lock(driver_id, ride_id)).json()["locked"] is True
    async with away(town):
        for answer in (
            await town.lock(driver_id, ride_id),
            await town.lock(driver_id, somebody()),
            await town.unlock(driver_id, ride_id),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "locks_unavailable")
            assert int(answer.headers["retry-after"]) >= 1


async def test_a_rule_holds_there_too(town: Town) -> None:
    driver_id = await town.new_driver()
    async with flushed(town):
        answer = await town.ping(driver_id, spot(400))
        assert answer["rejected"] == [{"index": 0, "code": "impossible"}]
        assert round((await town.row(driver_id))["lat"], 6) == LAT


async def test_while_redis_is_away_pings_are_written_at_a_low_rate_only(town: Town) -> None:
    driver_id = await town.new_driver(at=-50 * SECOND)
    await town.age(driver_id, "seen_at", 20 * SECOND)
    async with flushed(town):
        await town.ping(driver_id, spot(1))
        row = await town.row(driver_id)
        assert round(row["lat"], 6) == round(LAT + STEP, 6)
        assert (await town.ping(driver_id, spot(2)))["accepted"] == 1
        assert await town.row(driver_id) == row


async def test_a_leap_keeps_the_driver_present_there_too(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.age(driver_id, "seen_at", 30 * SECOND)
    before = (await town.row(driver_id))["seen_at"]
    async with flushed(town):
        await town.ping(driver_id, spot(400))
    assert (await town.row(driver_id))["seen_at"] > before


async def test_a_redis_that_goes_away_takes_nobody_along(town: Town) -> None:
    """What it knew was not written down; whoever lives has time to say so, and whoever does not goes."""
    driver_id = await town.new_driver()
    await town.age(driver_id, "seen_at")
    patrols = [town.patrol(presence_timeout=SECOND) for _ in range(3)]
    async with frozen(town):
        for patrol in patrols:
            await patrol.check_all()
        assert await town.told(driver_id) == ["online"]

        async def is_gone() -> bool:
            await asyncio.gather(*(patrol.check_all() for patrol in patrols))
            return (await town.told(driver_id)) != ["online"]

        await until(is_gone)
        await is_gone()
        assert await town.told(driver_id) == ["online", "offline"]


async def test_whoever_pings_meanwhile_stays(town: Town) -> None:
    driver_id, other = await town.new_driver(), await town.new_driver()
    patrol = town.patrol(presence_timeout=2 * SECOND)
    for one in (driver_id, other):
        await town.age(one, "seen_at")
    async with (
        served(town.parts, presence_timeout=2 * SECOND) as impatient,
        impatient.client() as api,
        frozen(town),
    ):
        here = replace(town, api=api)

        async def other_is_gone() -> bool:
            await here.ping(driver_id)
            await patrol.check_all()
            return (await town.told(other)) == ["online", "offline"]

        await until(other_is_gone)
        assert (await town.row(driver_id))["online"]
