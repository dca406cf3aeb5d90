"""An operator can end a ride that its driver does not end."""

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from catraca.domains.rides.store import RIDE_DUE
from catraca.events import RideCancelled, RideCompleted, RideFlagged
from catraca.platform.database import Database
from tests.conftest import bearer
from tests.domains.rides.desk import SE, Desk
from tests.servers import on_one_stack

pytestmark = on_one_stack

COMPLETED = {"outcome": "completed", "reason": "driver_unreachable"}
CANCELED = {"outcome": "canceled", "reason": "emergency"}


@pytest.fixture
def desk(api: httpx.AsyncClient, database: Database) -> Desk:
    return Desk(api, database)


async def started(desk: Desk, passenger_id: UUID | None = None, **fields: Any) -> tuple[UUID, UUID]:
    ride_id, driver_id = await desk.request(passenger_id, **fields), await desk.new_driver()
    await desk.offer(ride_id, driver_id)
    assert (await desk.accept(ride_id, driver_id)).status_code == 200
    await desk.drive_to("STARTED", ride_id, driver_id)
    return ride_id, driver_id


async def end(desk: Desk, ride_id: UUID, body: dict[str, Any], role: str = "operator") -> httpx.Response:
    return await desk.act(ride_id, "end", headers=bearer(role), json=body)


async def audited(desk: Desk, ride_id: UUID) -> list[Any]:
    return list(
        await desk.sql(
            "SELECT actor_id, data FROM audit_log WHERE action = 'ride.ended' AND subject_id = $1",
            str(ride_id),
        )
    )


@pytest.mark.parametrize("role", ["operator", "service"])
@pytest.mark.parametrize("body", [COMPLETED, CANCELED], ids=["completed", "canceled"])
async def test_operator_ends_a_started_ride(desk: Desk, body: dict[str, Any], role: str) -> None:
    ride_id, driver_id = await started(desk)
    answer = await end(desk, ride_id, body, role)
    ride = answer.json()
    assert (answer.status_code, ride["status"]) == (200, body["outcome"].upper())
    step = (await desk.timeline(ride_id))["steps"][-1]
    assert (step["actor"], step["reason"]) == ("operator", body["reason"])
    kind = RideCompleted if body is COMPLETED else RideCancelled
    (event,) = (event for event in await desk.events(ride_id) if isinstance(event, kind))
    assert (event.driver_id, getattr(event, "completed_by", None) or event.cancelled_by) == (
        driver_id,
        "operator",
    )
    assert ride["final_fare_cents"] == (ride["estimated_fare_cents"] if body is COMPLETED else None)
    assert len((await desk.offer(await desk.request(), driver_id))["offers"]) == 1, "the driver is free"
    assert len(await audited(desk, ride_id)) == 1


@pytest.mark.parametrize("body", [COMPLETED, CANCELED], ids=["completed", "canceled"])
async def test_repeated_end_changes_nothing(desk: Desk, body: dict[str, Any]) -> None:
    ride_id, _ = await started(desk)
    first = await end(desk, ride_id, body)
    assert (await end(desk, ride_id, body)).json() == first.json()
    assert len(await audited(desk, ride_id)) == 1
    other = await end(desk, ride_id, CANCELED if body is COMPLETED else COMPLETED)
    assert (other.status_code, other.json()["code"]) == (409, "ride_move_not_allowed")


async def test_operator_gives_the_fare_of_a_completed_ride(desk: Desk) -> None:
    ride_id, _ = await started(desk, way=SE)
    missing = await end(desk, ride_id, COMPLETED)
    assert (missing.status_code, missing.json()["code"]) == (422, "fare_missing")
    answer = await end(desk, ride_id, COMPLETED | {"fare_cents": 1500})
    assert (answer.status_code, answer.json()["final_fare_cents"]) == (200, 1500)
    (line,) = await audited(desk, ride_id)
    assert '"fare_cents": 1500' in line["data"]
    different = await end(desk, ride_id, COMPLETED | {"fare_cents": 1501})
    assert different.status_code == 409
    canceled = await end(desk, ride_id, CANCELED | {"fare_cents": 1})
    assert (canceled.status_code, canceled.json()["code"]) == (422, "request_invalid")


async def test_end_needs_a_driven_ride(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    answer = await end(desk, ride_id, COMPLETED)
    assert (answer.status_code, answer.json()["ride_status"]) == (409, "ACCEPTED")
    assert (await end(desk, ride_id, CANCELED)).json()["status"] == "CANCELED"
    offered, _ = await desk.offered()
    assert (await end(desk, offered, CANCELED)).status_code == 409
    assert (await end(desk, uuid4(), CANCELED)).status_code == 404
    for headers in (bearer("driver", driver_id), bearer("passenger")):
        assert (await desk.act(ride_id, "end", headers=headers, json=CANCELED)).status_code == 403


async def test_only_operators_cancel_started_rides(desk: Desk) -> None:
    """The schema refuses it too."""
    passenger_id = uuid4()
    ride_id, driver_id = await started(desk, passenger_id)
    for caller in (bearer("passenger", passenger_id), bearer("driver", driver_id), desk.operator):
        assert (await desk.cancel(ride_id, caller)).status_code == 409
    with pytest.raises(asyncpg.CheckViolationError) as refusal:
        await desk.sql(
            "INSERT INTO ride_events (ride_id, seq, from_status, to_status, round, actor, news)"
            " SELECT id, version + 1, 'STARTED', 'CANCELED', 1, 'passenger', 'x' FROM rides WHERE id = $1",
            ride_id,
        )
    assert refusal.value.constraint_name == "only_operators_cancel_started_rides"


async def test_passenger_is_erased_after_an_operator_ended_the_ride(desk: Desk) -> None:
    passenger_id = uuid4()
    ride_id, _ = await started(desk, passenger_id)
    passenger = bearer("passenger", passenger_id) | {"accept-language": "en"}
    refusal = await desk.api.delete("/v1/me", headers=passenger)
    assert (refusal.status_code, refusal.json()["code"]) == (409, "ride_under_way")
    assert "An operator can end a ride that has started." in refusal.json()["detail"]
    await end(desk, ride_id, CANCELED)
    assert (await desk.api.delete("/v1/me", headers=passenger)).status_code == 204


async def timer(desk: Desk, ride_id: UUID) -> Any:
    rows = await desk.sql(
        "SELECT t.due_at - r.started_at AS delay FROM timers t JOIN rides r ON r.id = t.subject_id"
        " WHERE kind = $1 AND subject_id = $2",
        RIDE_DUE,
        ride_id,
    )
    return rows[0]["delay"] if rows else None


async def test_long_ride_is_flagged_once(desk: Desk) -> None:
    ride_id, _ = await started(desk)
    assert await timer(desk, ride_id) == timedelta(hours=6)
    await desk.start_earlier(ride_id, timedelta(hours=6))
    await desk.settle(ride_id)
    await desk.settle(ride_id)
    (flag,) = await desk.flags(ride_id)
    assert (flag["kind"], flag["measured"] >= 6 * 3600, flag["reviewed_at"]) == ("takes_too_long", True, None)
    assert [type(event) for event in await desk.events(ride_id)].count(RideFlagged) == 1
    assert await desk.status(ride_id) == "STARTED"


async def test_timer_ends_with_the_ride(desk: Desk) -> None:
    for body in (COMPLETED, CANCELED):
        ride_id, _ = await started(desk)
        await end(desk, ride_id, body)
        assert await timer(desk, ride_id) is None


async def test_reviewed_flag_leaves_the_list(desk: Desk) -> None:
    ride_id, _ = await started(desk)
    await desk.settle(ride_id)
    (flag,) = await desk.flags(ride_id)
    path = f"/v1/ride-flags/{flag['flag_id']}/review"
    first = await desk.api.post(path, headers=desk.operator)
    assert (first.status_code, first.json()["reviewed_at"] is None) == (200, False)
    assert (await desk.api.post(path, headers=bearer("operator"))).json() == first.json()
    assert await desk.flags(ride_id) == []
    assert await desk.flags(ride_id, reviewed="true") == [first.json()]
    lines = await desk.sql(
        "SELECT 1 FROM audit_log WHERE action = 'ride.flag_reviewed' AND subject_id = $1", str(ride_id)
    )
    assert len(lines) == 1
    unknown = await desk.api.post(f"/v1/ride-flags/{uuid4()}/review", headers=desk.operator)
    assert (unknown.status_code, unknown.json()["code"]) == (404, "flag_not_found")
