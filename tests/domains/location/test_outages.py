"""Redis stopped, frozen or emptied: presence, pings and searches use PostgreSQL, locks answer 503."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest

from tests.domains.location.town import LAT, STEP, Town, redis_emptied, redis_frozen, redis_stopped, spot
from tests.servers import until
from tests.support.http import served

SECOND = timedelta(seconds=1)


WAYS = [redis_frozen, redis_stopped, redis_emptied]
each_way = pytest.mark.parametrize("away", WAYS, ids=lambda way: way.__name__)
Way = Callable[[Town], AsyncIterator[None]]


@each_way
async def test_pings_and_searches_use_postgresql_without_redis(town: Town, away: Way) -> None:
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
        assert await town.nearby_ids(radius_m=100) == []
    await town.patrol().rebuild_index()
    assert (await town.ping(driver_id, spot(2.5)))["kept_in"] == "redis"
    assert (await town.nearby())["source"] == "redis"
    assert await town.nearby_ids() == [driver_id]


@each_way
async def test_status_changes_without_redis(town: Town, away: Way) -> None:
    leaving = await town.new_driver()
    coming = await town.rides.new_driver()
    async with away(town):
        await town.go(leaving, online=False)
        answer = await town.try_to_ping(leaving, spot())
        assert (answer.status_code, answer.json()["code"]) == (409, "driver_offline")
        await town.go(coming, online=True, position=spot())
        assert await town.nearby_ids() == [coming]
    patrol = town.patrol()
    await patrol.rebuild_index()
    await patrol.check_all()
    assert await town.nearby_ids(all=True) == [coming]
    assert (await town.nearby())["source"] == "redis"
    assert await town.events(leaving) == ["online", "offline"]
    assert (await town.try_to_ping(leaving, spot())).status_code == 409, (
        "the rebuilt index does not have the driver"
    )


@pytest.mark.parametrize("away", [redis_frozen, redis_stopped], ids=["frozen", "stopped"])
async def test_locks_answer_503_without_redis(town: Town, away: Way) -> None:
    driver_id, ride_id = uuid4(), uuid4()
    assert (await town.lock(driver_id, ride_id)).json()["locked"] is True
    async with away(town):
        for answer in (
            await town.lock(driver_id, ride_id),
            await town.lock(driver_id, uuid4()),
            await town.unlock(driver_id, ride_id),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "locks_unavailable")
            assert int(answer.headers["retry-after"]) >= 1


async def test_ping_rules_hold_without_redis(town: Town) -> None:
    driver_id = await town.new_driver()
    async with redis_emptied(town):
        answer = await town.ping(driver_id, spot(400))
        assert answer["rejected"] == [{"index": 0, "code": "impossible"}]
        assert round((await town.row(driver_id))["lat"], 6) == LAT


async def test_pings_without_redis_are_written_at_an_interval(town: Town) -> None:
    driver_id = await town.new_driver(at=-50 * SECOND)
    await town.age(driver_id, "seen_at", 20 * SECOND)
    async with redis_emptied(town):
        await town.ping(driver_id, spot(1))
        row = await town.row(driver_id)
        assert round(row["lat"], 6) == round(LAT + STEP, 6)
        assert (await town.ping(driver_id, spot(2)))["accepted"] == 1
        assert await town.row(driver_id) == row


async def test_impossible_ping_without_redis_keeps_the_driver_online(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.age(driver_id, "seen_at", 30 * SECOND)
    before = (await town.row(driver_id))["seen_at"]
    async with redis_emptied(town):
        await town.ping(driver_id, spot(400))
    assert (await town.row(driver_id))["seen_at"] > before


async def test_redis_outage_expires_drivers_only_after_the_timeout(town: Town) -> None:
    """Pings known only to Redis are lost; drivers have the full timeout to ping again."""
    driver_id = await town.new_driver()
    await town.age(driver_id, "seen_at")
    patrols = [town.patrol(presence_timeout=SECOND) for _ in range(3)]
    async with redis_frozen(town):
        for patrol in patrols:
            await patrol.check_all()
        assert await town.events(driver_id) == ["online"]

        async def is_gone() -> bool:
            await asyncio.gather(*(patrol.check_all() for patrol in patrols))
            return (await town.events(driver_id)) != ["online"]

        await until(is_gone)
        await is_gone()
        assert await town.events(driver_id) == ["online", "offline"]


async def test_pinging_driver_stays_online_during_a_redis_outage(town: Town) -> None:
    driver_id, other = await town.new_driver(), await town.new_driver()
    patrol = town.patrol(presence_timeout=2 * SECOND)
    for one in (driver_id, other):
        await town.age(one, "seen_at")
    async with (
        served(town.parts, presence_timeout=2 * SECOND) as impatient,
        impatient.client() as api,
        redis_frozen(town),
    ):
        here = replace(town, api=api)

        async def other_is_gone() -> bool:
            await here.ping(driver_id)
            await patrol.check_all()
            return (await town.events(other)) == ["online", "offline"]

        await until(other_is_gone)
        assert (await town.row(driver_id))["online"]
