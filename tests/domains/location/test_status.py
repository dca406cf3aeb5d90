"""Being at work or not: told once for each change, and only of those who may drive."""

import asyncio
from datetime import timedelta

from tests.conftest import bearer
from tests.domains.location.town import Town, somebody, spot


async def test_going_online_and_offline_is_told_once_however_often_it_is_said(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    first = (await town.go(driver_id, online=True)).json()
    again = (await town.go(driver_id, online=True)).json()
    assert first == again
    assert (first["online"], await town.told(driver_id)) == (True, ["online"])
    for _ in range(2):
        assert (await town.go(driver_id, online=False)).json()["online"] is False
    assert await town.told(driver_id) == ["online", "offline"]
    await town.go(driver_id, online=True)
    assert await town.told(driver_id) == ["online", "offline", "online"]


async def test_said_many_times_at_once_it_is_told_once(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    await asyncio.gather(*(town.go(driver_id, online=True) for _ in range(20)))
    assert await town.told(driver_id) == ["online"]
    await asyncio.gather(*(town.go(driver_id, online=False) for _ in range(20)))
    assert await town.told(driver_id) == ["online", "offline"]


async def test_whoever_begins_with_a_position_is_found_at_once(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    await town.go(driver_id, online=True, position=spot())
    assert await town.near() == [driver_id]
    await town.go(driver_id, online=False)
    assert await town.near(all=True) == []


async def test_a_bad_position_does_not_keep_anybody_from_working(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    old = spot(at=timedelta(minutes=-2))
    answer = (await town.go(driver_id, online=True, position=old)).json()
    assert (answer["online"], answer["position_rejected"]) == (True, "stale")
    assert await town.near(all=True) == []
    answer = (await town.go(driver_id, online=True, position=spot())).json()
    assert answer["position_rejected"] is None
    assert await town.near() == [driver_id]
    answer = (await town.go(driver_id, online=True, position=spot(500))).json()
    assert answer["position_rejected"] == "impossible"


async def test_only_who_may_drive_goes_online(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    path = f"/v1/drivers/{driver_id}/approval"
    verdict = {"approval": "suspended"}
    assert (await town.api.put(path, json=verdict, headers=bearer("operator"))).status_code == 200
    answer = await town.try_to_go(driver_id, bearer("driver", driver_id), online=True)
    assert (answer.status_code, answer.json()["code"]) == (403, "driver_may_not_drive")
    assert await town.row(driver_id) is None
    assert await town.told(driver_id) == []


async def test_whoever_is_suspended_while_at_work_is_not_available(town: Town) -> None:
    driver_id = await town.new_driver()
    verdict = {"approval": "suspended"}
    path = f"/v1/drivers/{driver_id}/approval"
    assert (await town.api.put(path, json=verdict, headers=bearer("operator"))).status_code == 200
    assert await town.near() == []
    assert await town.near(all=True) == [driver_id]


async def test_an_operator_may_send_somebody_home_which_is_on_record(town: Town) -> None:
    driver_id, operator_id = await town.new_driver(), somebody()
    for _ in range(2):
        answer = await town.try_to_go(driver_id, bearer("operator", operator_id), online=False)
        assert (answer.status_code, answer.json()["online"]) == (200, False)
    assert await town.told(driver_id) == ["online", "offline"]
    async with town.parts.database.connection() as db:
        acts = await db.fetch("SELECT actor_id, action FROM audit_log WHERE subject_id = $1", str(driver_id))
    assert [(act["actor_id"], act["action"]) for act in acts] == [(operator_id, "driver_put_offline")]


async def test_where_somebody_is_who_stopped_working_is_not_kept(town: Town) -> None:
    driver_id = await town.new_driver()
    assert (await town.row(driver_id))["lat"] is not None
    await town.go(driver_id, online=False)
    assert (await town.row(driver_id))["lat"] is None
    for command in ("ZSCORE catraca:location:seen", "ZSCORE catraca:location:geo"):
        assert await town.redis.command(*command.split(" "), str(driver_id)) is None
    assert await town.redis.command("HGET", "catraca:location:pings", str(driver_id)) is None
