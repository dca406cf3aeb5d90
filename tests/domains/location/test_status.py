"""Online and offline: one event for each change, for approved drivers only."""

import asyncio
from datetime import timedelta
from uuid import uuid4

from tests.conftest import bearer
from tests.domains.location.town import Town, spot


async def test_repeated_status_publishes_one_event(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    first = (await town.go(driver_id, online=True)).json()
    again = (await town.go(driver_id, online=True)).json()
    assert first == again
    assert (first["online"], await town.events(driver_id)) == (True, ["online"])
    for _ in range(2):
        assert (await town.go(driver_id, online=False)).json()["online"] is False
    assert await town.events(driver_id) == ["online", "offline"]
    await town.go(driver_id, online=True)
    assert await town.events(driver_id) == ["online", "offline", "online"]


async def test_concurrent_status_changes_publish_one_event(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    await asyncio.gather(*(town.go(driver_id, online=True) for _ in range(20)))
    assert await town.events(driver_id) == ["online"]
    await asyncio.gather(*(town.go(driver_id, online=False) for _ in range(20)))
    assert await town.events(driver_id) == ["online", "offline"]


async def test_driver_online_with_a_position_is_found_at_once(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    await town.go(driver_id, online=True, position=spot())
    assert await town.nearby_ids() == [driver_id]
    await town.go(driver_id, online=False)
    assert await town.nearby_ids(all=True) == []


async def test_rejected_position_does_not_prevent_going_online(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    old = spot(at=timedelta(minutes=-2))
    answer = (await town.go(driver_id, online=True, position=old)).json()
    assert (answer["online"], answer["position_rejected"]) == (True, "stale")
    assert await town.nearby_ids(all=True) == []
    answer = (await town.go(driver_id, online=True, position=spot())).json()
    assert answer["position_rejected"] is None
    assert await town.nearby_ids() == [driver_id]
    answer = (await town.go(driver_id, online=True, position=spot(500))).json()
    assert answer["position_rejected"] == "impossible"


async def test_suspended_driver_cannot_go_online(town: Town) -> None:
    driver_id = await town.rides.new_driver()
    path = f"/v1/drivers/{driver_id}/approval"
    verdict = {"approval": "suspended"}
    assert (await town.api.put(path, json=verdict, headers=bearer("operator"))).status_code == 200
    answer = await town.try_to_go(driver_id, bearer("driver", driver_id), online=True)
    assert (answer.status_code, answer.json()["code"]) == (403, "driver_may_not_drive")
    assert await town.row(driver_id) is None
    assert await town.events(driver_id) == []


async def test_driver_suspended_while_online_is_not_available(town: Town) -> None:
    driver_id = await town.new_driver()
    verdict = {"approval": "suspended"}
    path = f"/v1/drivers/{driver_id}/approval"
    assert (await town.api.put(path, json=verdict, headers=bearer("operator"))).status_code == 200
    assert await town.nearby_ids() == []
    assert await town.nearby_ids(all=True) == [driver_id]


async def test_operator_sets_a_driver_offline_with_an_audit_entry(town: Town) -> None:
    driver_id, operator_id = await town.new_driver(), uuid4()
    for _ in range(2):
        answer = await town.try_to_go(driver_id, bearer("operator", operator_id), online=False)
        assert (answer.status_code, answer.json()["online"]) == (200, False)
    assert await town.events(driver_id) == ["online", "offline"]
    async with town.parts.database.connection() as db:
        acts = await db.fetch("SELECT actor_id, action FROM audit_log WHERE subject_id = $1", str(driver_id))
    assert [(act["actor_id"], act["action"]) for act in acts] == [(operator_id, "driver_put_offline")]


async def test_position_of_an_offline_driver_is_deleted(town: Town) -> None:
    driver_id = await town.new_driver()
    assert (await town.row(driver_id))["lat"] is not None
    await town.go(driver_id, online=False)
    assert (await town.row(driver_id))["lat"] is None
    for command in ("ZSCORE catraca:location:seen", "ZSCORE catraca:location:geo"):
        assert await town.redis.command(*command.split(" "), str(driver_id)) is None
    assert await town.redis.command("HGET", "catraca:location:pings", str(driver_id)) is None
