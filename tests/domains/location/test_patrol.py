"""What happens by the passing of time: silence, idleness, positions written down, and a map kept true."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from catraca.domains.location import store as index
from catraca.domains.location.presence import jobs
from tests.conftest import bearer
from tests.domains.location.town import LAT, STEP, Town, spot

WHOLE = "catraca:location:whole"


async def online(town: Town, driver_id: UUID) -> bool:
    return (await town.row(driver_id))["online"]


async def test_whoever_is_silent_for_long_goes_offline_once(town: Town) -> None:
    silent, alive = await town.new_driver(), await town.new_driver()
    await town.silence(silent)
    patrol = town.patrol()
    for _ in range(3):
        await patrol.check_all()
    assert await town.told(silent) == ["online", "offline"]
    assert await town.told(alive) == ["online"]
    assert await town.near(all=True) == [alive]
    assert await town.redis.command("ZSCORE", "catraca:location:seen", str(silent)) is None


async def test_patrols_at_the_same_time_tell_of_it_once(town: Town) -> None:
    drivers = [await town.new_driver() for _ in range(8)]
    for driver_id in drivers:
        await town.silence(driver_id)
    await asyncio.gather(*(town.patrol().check_all() for _ in range(6)))
    for driver_id in drivers:
        assert await town.told(driver_id) == ["online", "offline"]


async def test_whoever_redis_heard_of_is_not_silent(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.age(driver_id, "seen_at")
    await town.ping(driver_id)
    before = (await town.row(driver_id))["seen_at"]
    await town.patrol().check_all()
    assert await town.told(driver_id) == ["online"]
    assert (await town.row(driver_id))["seen_at"] > before


async def test_what_redis_heard_a_little_later_counts_though_it_is_not_worth_writing_down(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.age(driver_id, "seen_at", timedelta(seconds=62))
    seconds, _ = await town.redis.command("TIME")  # type: ignore[misc]
    await town.redis.command(
        "ZADD", "catraca:location:seen", "XX", (int(seconds) - 55) * 1_000_000, str(driver_id)
    )
    await town.patrol().check_all()
    assert await town.told(driver_id) == ["online"]


async def test_whoever_postgresql_heard_of_is_not_silent(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.redis.command("ZADD", "catraca:location:seen", "XX", 1, str(driver_id))
    await town.patrol().check_all()
    assert await town.told(driver_id) == ["online"]


async def test_a_ping_between_the_look_and_the_change_keeps_the_driver(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patrol believes in silence; the row it would change has been seen since."""
    driver_id = await town.new_driver()
    await town.silence(driver_id)
    look = index.last_seen

    async def look_and_be_late(*given: Any) -> Any:
        heard = await look(*given)
        await town.go(driver_id, online=True, position=spot())
        return heard

    monkeypatch.setattr(index, "last_seen", look_and_be_late)
    await town.patrol().check_all()
    assert await online(town, driver_id)


async def test_positions_are_written_down_now_and_then(town: Town) -> None:
    driver_id = await town.new_driver(at=timedelta(seconds=-50))
    patrol = town.patrol(position_interval=timedelta(seconds=10))
    await town.ping(driver_id, spot(3))
    await patrol.check_all()
    assert round((await town.row(driver_id))["lat"], 6) == LAT, "it is not time yet"
    await town.age(driver_id, "seen_at", timedelta(seconds=11))
    await patrol.check_all()
    row = await town.row(driver_id)
    assert round(row["lat"], 6) == round(LAT + 3 * STEP, 6)
    await town.ping(driver_id, spot(4))
    await patrol.check_all()
    assert (await town.row(driver_id)) == row, "not again at once"


async def test_whoever_is_free_for_long_is_told_of_once_for_each_stretch(town: Town) -> None:
    driver_id, patrol = await town.new_driver(), town.patrol()
    await patrol.check_all()
    assert await town.told(driver_id) == ["online"]
    await town.age(driver_id, "free_since")
    for _ in range(3):
        await patrol.check_all()
    await asyncio.gather(*(town.patrol().check_all() for _ in range(4)))
    assert await town.told(driver_id) == ["online", "idle"]

    ride_id = await town.rides.request()
    await town.rides.offer(ride_id, driver_id)
    await patrol.check_all()
    assert (await town.row(driver_id))["free_since"] is None
    assert (await town.rides.accept(ride_id, driver_id)).status_code == 200
    await patrol.check_all()
    assert await town.told(driver_id) == ["online", "idle"], "nobody who drives is idle"


async def test_a_stretch_begins_anew_after_work(town: Town) -> None:
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
    assert await town.told(driver_id) == ["online"], "free for a moment only"
    await town.age(driver_id, "free_since")
    await patrol.check_all()
    assert await town.told(driver_id) == ["online", "idle"]


async def test_after_a_flush_the_map_is_filled_again_and_nobody_is_taken_for_silent(town: Town) -> None:
    drivers = [await town.new_driver(steps=n) for n in range(5)]
    for driver_id in drivers:
        await town.age(driver_id, "seen_at")  # nobody had written down that they live
    await town.redis.command("FLUSHALL")
    assert (await town.nearby())["source"] == "database"
    patrol = town.patrol()
    await patrol.rebuild_index()
    await patrol.check_all()
    found = await town.nearby()
    assert (found["source"], [UUID(one["driver_id"]) for one in found["drivers"]]) == ("redis", drivers)
    for driver_id in drivers:
        assert await town.told(driver_id) == ["online"]


async def test_everybody_is_gone_past_and_filled_in_however_many_there_are(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "PAGE", 2)
    drivers = [await town.new_driver() for _ in range(7)]
    await town.redis.command("FLUSHALL")
    await town.patrol().rebuild_index()
    assert sorted(await town.near()) == sorted(drivers)
    for driver_id in drivers:
        await town.silence(driver_id)
    await town.patrol().check_all()
    for driver_id in drivers:
        assert await town.told(driver_id) == ["online", "offline"]


async def test_filling_does_not_overwrite_what_pings_brought(town: Town) -> None:
    driver_id = await town.new_driver(at=timedelta(seconds=-50))
    await town.ping(driver_id, spot(3))
    await town.redis.command("DEL", WHOLE)
    await town.patrol().rebuild_index()
    (found,) = (await town.nearby())["drivers"]
    assert round(found["lat"], 6) == round(LAT + 3 * STEP, 6)


async def test_a_flush_while_the_map_is_filled_is_noticed(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver_id = await town.new_driver()
    await town.redis.command("FLUSHALL")
    show = index.add_drivers

    async def show_and_forget(*given: Any, **more: Any) -> None:
        await show(*given, **more)
        await town.redis.command("FLUSHALL")

    patrol = town.patrol()
    with monkeypatch.context() as patch:
        patch.setattr(index, "add_drivers", show_and_forget)
        await patrol.rebuild_index()
    assert not await town.redis.command("EXISTS", WHOLE)
    await patrol.rebuild_index()
    assert await town.redis.command("EXISTS", WHOLE)
    assert await town.near() == [driver_id]


async def test_only_one_fills_the_map_and_only_one_patrols(town: Town) -> None:
    await town.redis.command("FLUSHALL")
    await town.redis.command("HSET", index.REBUILD_KEY, "holder", "another process", "fence", 1)
    await town.patrol().rebuild_index()
    assert not await town.redis.command("EXISTS", WHOLE)
    driver_id = await town.new_driver()
    await town.age(driver_id, "free_since")
    await town.redis.command("HSET", index.PATROL_KEY, "holder", "another process", "fence", 1)
    await town.patrol().run()
    assert await town.told(driver_id) == ["online"]
    await town.redis.command("DEL", index.PATROL_KEY)
    await town.patrol().run()
    assert await town.told(driver_id) == ["online", "idle"]


async def test_a_patrol_puts_the_map_right(town: Town) -> None:
    """Redis was away when one began to work and when another stopped, and remembers."""
    missing, stray = await town.new_driver(), await town.rides.new_driver()
    await town.redis.command("ZREM", "catraca:location:seen", str(missing))
    await town.redis.command("ZREM", "catraca:location:geo", str(missing))
    await town.redis.command("ZADD", "catraca:location:seen", 1, str(stray))
    await town.redis.command("ZADD", "catraca:location:seen", 1, str(UUID(int=7)))
    await town.patrol().check_all()
    assert await town.redis.command("ZRANGE", "catraca:location:seen", 0, -1) == [str(missing).encode()]
    assert await town.near() == [missing]


async def test_how_many_are_online_busy_and_idle_is_told(town: Town) -> None:
    drivers = [await town.new_driver() for _ in range(4)]
    await town.drive(drivers[0])
    for driver_id in drivers[:2]:
        await town.age(driver_id, "free_since")
    await town.patrol().check_all()
    figures = (await town.api.get("/metrics")).text
    assert await town.told(drivers[0]) == ["online"]
    for name, value in (("online", 4), ("busy", 1), ("idle", 1)):
        assert f"catraca_location_drivers_{name} {value}.0" in figures
