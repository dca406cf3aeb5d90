"""The patrol: silent and idle drivers, positions copied to PostgreSQL, and the index kept correct."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from catraca.domains.location import store as index
from catraca.domains.location.presence import jobs
from tests.conftest import bearer
from tests.domains.location.town import LAT, STEP, Town, spot

COMPLETE = "catraca:location:whole"


async def online(town: Town, driver_id: UUID) -> bool:
    return (await town.row(driver_id))["online"]


async def test_silent_driver_goes_offline_once(town: Town) -> None:
    silent, alive = await town.new_driver(), await town.new_driver()
    await town.make_silent(silent)
    patrol = town.patrol()
    for _ in range(3):
        await patrol.check_all()
    assert await town.events(silent) == ["online", "offline"]
    assert await town.events(alive) == ["online"]
    assert await town.nearby_ids(all=True) == [alive]
    assert await town.redis.command("ZSCORE", "catraca:location:seen", str(silent)) is None


async def test_concurrent_patrols_publish_one_event(town: Town) -> None:
    drivers = [await town.new_driver() for _ in range(8)]
    for driver_id in drivers:
        await town.make_silent(driver_id)
    await asyncio.gather(*(town.patrol().check_all() for _ in range(6)))
    for driver_id in drivers:
        assert await town.events(driver_id) == ["online", "offline"]


async def test_ping_in_redis_keeps_the_driver_online(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.age(driver_id, "seen_at")
    await town.ping(driver_id)
    before = (await town.row(driver_id))["seen_at"]
    await town.patrol().check_all()
    assert await town.events(driver_id) == ["online"]
    assert (await town.row(driver_id))["seen_at"] > before


async def test_ping_in_redis_counts_before_it_is_copied(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.age(driver_id, "seen_at", timedelta(seconds=62))
    seconds, _ = await town.redis.command("TIME")  # type: ignore[misc]
    await town.redis.command(
        "ZADD", "catraca:location:seen", "XX", (int(seconds) - 55) * 1_000_000, str(driver_id)
    )
    await town.patrol().check_all()
    assert await town.events(driver_id) == ["online"]


async def test_ping_in_postgresql_keeps_the_driver_online(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.redis.command("ZADD", "catraca:location:seen", "XX", 1, str(driver_id))
    await town.patrol().check_all()
    assert await town.events(driver_id) == ["online"]


async def test_ping_during_a_patrol_keeps_the_driver_online(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index says silent; the row was updated after that read."""
    driver_id = await town.new_driver()
    await town.make_silent(driver_id)
    read = index.last_seen

    async def read_before_a_ping(*given: Any) -> Any:
        seen = await read(*given)
        await town.go(driver_id, online=True, position=spot())
        return seen

    monkeypatch.setattr(index, "last_seen", read_before_a_ping)
    await town.patrol().check_all()
    assert await online(town, driver_id)


async def test_positions_are_copied_at_an_interval(town: Town) -> None:
    driver_id = await town.new_driver(at=timedelta(seconds=-50))
    patrol = town.patrol(position_interval=timedelta(seconds=10))
    await town.ping(driver_id, spot(3))
    await patrol.check_all()
    assert round((await town.row(driver_id))["lat"], 6) == LAT, "before the interval has passed"
    await town.age(driver_id, "seen_at", timedelta(seconds=11))
    await patrol.check_all()
    row = await town.row(driver_id)
    assert round(row["lat"], 6) == round(LAT + 3 * STEP, 6)
    await town.ping(driver_id, spot(4))
    await patrol.check_all()
    assert (await town.row(driver_id)) == row, "once in an interval"


async def test_idle_event_is_published_once_per_free_time(town: Town) -> None:
    driver_id, patrol = await town.new_driver(), town.patrol()
    await patrol.check_all()
    assert await town.events(driver_id) == ["online"]
    await town.age(driver_id, "free_since")
    for _ in range(3):
        await patrol.check_all()
    await asyncio.gather(*(town.patrol().check_all() for _ in range(4)))
    assert await town.events(driver_id) == ["online", "idle"]

    ride_id = await town.rides.request()
    await town.rides.offer(ride_id, driver_id)
    await patrol.check_all()
    assert (await town.row(driver_id))["free_since"] is None
    assert (await town.rides.accept(ride_id, driver_id)).status_code == 200
    await patrol.check_all()
    assert await town.events(driver_id) == ["online", "idle"], "a driving driver is not idle"


async def test_free_time_restarts_after_an_offer(town: Town) -> None:
    driver_id, patrol = await town.new_driver(), town.patrol()
    await town.age(driver_id, "free_since")
    ride_id = await town.rides.request()
    await town.rides.offer(ride_id, driver_id, ttl_seconds=60)
    await patrol.check_all()
    headers = bearer("driver", driver_id)
    answer = await town.api.patch(
        f"/rides/{ride_id}/reject", json={"driver_id": str(driver_id)}, headers=headers
    )
    assert answer.status_code == 200, answer.text
    await patrol.check_all()
    assert await town.events(driver_id) == ["online"], "free for a short time"
    await town.age(driver_id, "free_since")
    await patrol.check_all()
    assert await town.events(driver_id) == ["online", "idle"]


async def test_rebuild_after_a_loss_expires_no_driver(town: Town) -> None:
    drivers = [await town.new_driver(steps=n) for n in range(5)]
    for driver_id in drivers:
        await town.age(driver_id, "seen_at")  # Only Redis has their pings.
    await town.redis.command("FLUSHALL")
    assert (await town.nearby())["source"] == "database"
    patrol = town.patrol()
    await patrol.rebuild_index()
    await patrol.check_all()
    found = await town.nearby()
    assert (found["source"], [UUID(one["driver_id"]) for one in found["drivers"]]) == ("redis", drivers)
    for driver_id in drivers:
        assert await town.events(driver_id) == ["online"]


async def test_patrol_and_rebuild_read_all_pages(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PAGE", 2)
    drivers = [await town.new_driver() for _ in range(7)]
    await town.redis.command("FLUSHALL")
    await town.patrol().rebuild_index()
    assert sorted(await town.nearby_ids()) == sorted(drivers)
    for driver_id in drivers:
        await town.make_silent(driver_id)
    await town.patrol().check_all()
    for driver_id in drivers:
        assert await town.events(driver_id) == ["online", "offline"]


async def test_rebuild_keeps_newer_pings(town: Town) -> None:
    driver_id = await town.new_driver(at=timedelta(seconds=-50))
    await town.ping(driver_id, spot(3))
    await town.redis.command("DEL", COMPLETE)
    await town.patrol().rebuild_index()
    (found,) = (await town.nearby())["drivers"]
    assert round(found["lat"], 6) == round(LAT + 3 * STEP, 6)


async def test_loss_during_a_rebuild_is_detected(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    driver_id = await town.new_driver()
    await town.redis.command("FLUSHALL")
    add = index.add_drivers

    async def add_and_lose(*given: Any, **more: Any) -> None:
        await add(*given, **more)
        await town.redis.command("FLUSHALL")

    patrol = town.patrol()
    with monkeypatch.context() as patch:
        patch.setattr(index, "add_drivers", add_and_lose)
        await patrol.rebuild_index()
    assert not await town.redis.command("EXISTS", COMPLETE)
    await patrol.rebuild_index()
    assert await town.redis.command("EXISTS", COMPLETE)
    assert await town.nearby_ids() == [driver_id]


async def test_one_process_at_a_time_rebuilds_and_patrols(town: Town) -> None:
    await town.redis.command("FLUSHALL")
    await town.redis.command("HSET", index.REBUILD_KEY, "holder", "another process", "fence", 1)
    await town.patrol().rebuild_index()
    assert not await town.redis.command("EXISTS", COMPLETE)
    driver_id = await town.new_driver()
    await town.age(driver_id, "free_since")
    await town.redis.command("HSET", index.PATROL_KEY, "holder", "another process", "fence", 1)
    await town.patrol().run()
    assert await town.events(driver_id) == ["online"]
    await town.redis.command("DEL", index.PATROL_KEY)
    await town.patrol().run()
    assert await town.events(driver_id) == ["online", "idle"]


async def test_patrol_corrects_the_index(town: Town) -> None:
    """Redis was down when one driver went online and when another went offline."""
    missing, offline = await town.new_driver(), await town.rides.new_driver()
    await town.redis.command("ZREM", "catraca:location:seen", str(missing))
    await town.redis.command("ZREM", "catraca:location:geo", str(missing))
    await town.redis.command("ZADD", "catraca:location:seen", 1, str(offline))
    await town.redis.command("ZADD", "catraca:location:seen", 1, str(UUID(int=7)))
    await town.patrol().check_all()
    assert await town.redis.command("ZRANGE", "catraca:location:seen", 0, -1) == [str(missing).encode()]
    assert await town.nearby_ids() == [missing]


async def test_patrol_sets_the_driver_gauges(town: Town) -> None:
    drivers = [await town.new_driver() for _ in range(4)]
    await town.drive(drivers[0])
    for driver_id in drivers[:2]:
        await town.age(driver_id, "free_since")
    await town.patrol().check_all()
    figures = (await town.api.get("/metrics")).text
    assert await town.events(drivers[0]) == ["online"]
    for name, value in (("online", 4), ("busy", 1), ("idle", 1)):
        assert f"catraca_location_drivers_{name} {value}.0" in figures
