"""The state table: model and schema agree, and both refuse every other move."""

import re
from itertools import pairwise
from typing import get_args
from uuid import UUID, uuid4

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.rides import RideId, expire_payment, pay_ride
from catraca.domains.rides.errors import RideMoveNotAllowed
from catraca.domains.rides.model import DRIVEN, MOVES, OPEN, Ride, Status
from catraca.platform.clock import now
from tests.conftest import bearer
from tests.domains.rides.desk import Desk

STATES: tuple[Status, ...] = get_args(Status)
# The move of each driver's verb; in any other status the API answers 409.
VERBS = {"arrive": "ARRIVING", "start": "STARTED", "complete": "COMPLETED"}
REFUSED = asyncpg.IntegrityConstraintViolationError


def a_ride(status: Status) -> Ride:
    driver = uuid4() if status in DRIVEN else None
    fields = dict.fromkeys(Ride.__dataclass_fields__)
    return Ride(**fields | {"status": status, "accepted_driver_id": driver, "created_at": now()})  # type: ignore[arg-type]


async def schema_moves(desk: Desk) -> set[tuple[str, str]]:
    rows = await desk.sql(
        "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conname = 'only_allowed_moves'"
    )
    return set(re.findall(r"'([A-Z_]+)>([A-Z_]+)'", rows[0]["text"]))


async def test_schema_allows_the_moves_of_the_model(desk: Desk) -> None:
    model = {(start, end) for start, ends in MOVES.items() for end in ends}
    assert await schema_moves(desk) == model
    assert set(MOVES) == set(STATES)


async def test_schema_has_the_same_states(desk: Desk) -> None:
    rows = await desk.sql(
        "SELECT pg_get_constraintdef(oid) AS text FROM pg_constraint WHERE conname = 'rides_status_check'"
    )
    assert set(re.findall(r"'([A-Z_]+)'", rows[0]["text"])) == set(STATES)


def test_open_and_driven_rides_are_the_unfinished_ones() -> None:
    assert not OPEN & DRIVEN
    ends = {state for state in STATES if not MOVES[state]}
    assert ends == {"PAID", "CANCELED", "EXPIRED"}
    assert set(STATES) == OPEN | DRIVEN | ends | {"COMPLETED", "PAYMENT_EXPIRED"}


@given(st.sampled_from(STATES), st.sampled_from(STATES))
def test_model_refuses_every_move_not_in_the_table(start: Status, end: Status) -> None:
    if end in MOVES[start]:
        a_ride(start).check_move(end)
        return
    with pytest.raises(RideMoveNotAllowed) as refusal:
        a_ride(start).check_move(end)
    assert refusal.value.data == {"ride_status": start}


async def ride_in(desk: Desk, status: Status) -> tuple[UUID, UUID]:
    """Return a ride in this status, reached by allowed moves, and its driver."""
    if status in ("REQUESTED", "EXPIRED"):
        ride_id, driver_id = await desk.request(), await desk.new_driver()
        if status == "EXPIRED":
            await desk.end_time_of_search(ride_id)
            await desk.settle(ride_id)
        return ride_id, driver_id
    ride_id, (driver_id,) = await desk.offered()
    if status == "SEARCHING":
        await desk.reject(ride_id, driver_id)
    elif status in (*DRIVEN, "COMPLETED"):
        await desk.accept(ride_id, driver_id)
        await desk.drive_to(status, ride_id, driver_id)
    elif status in ("PAID", "PAYMENT_EXPIRED"):
        await desk.accept(ride_id, driver_id)
        await desk.drive_to("COMPLETED", ride_id, driver_id)
        if status == "PAID":
            await desk.database.run(lambda db: pay_ride(db, RideId(ride_id), actor="system", by=None))
        else:
            await desk.database.run(lambda db: expire_payment(db, RideId(ride_id)))
    elif status == "CANCELED":
        await desk.accept(ride_id, driver_id)
        await desk.cancel(ride_id, desk.operator)
    assert await desk.status(ride_id) == status
    return ride_id, driver_id


@pytest.mark.parametrize("status", STATES)
async def test_api_refuses_every_move_not_in_the_table(desk: Desk, status: Status) -> None:
    ride_id, driver_id = await ride_in(desk, status)
    timeline = await desk.timeline(ride_id)
    is_driver = (await desk.read(ride_id))["driver_id"] == str(driver_id)
    for verb, end in VERBS.items():
        # A repeat of `arrive` or `start` returns the ride as it is.
        if end in MOVES[status] or end == status != "COMPLETED":
            continue
        body = {} if verb == "complete" else None
        answer = await desk.act(ride_id, verb, headers=bearer("driver", driver_id), json=body)
        expected = (409, "ride_move_not_allowed") if is_driver else (404, "ride_not_found")
        assert (answer.status_code, answer.json()["code"]) == expected
        if is_driver:
            assert answer.json()["ride_status"] == status
    if status == "STARTED" or "CANCELED" not in MOVES[status]:
        answer = await desk.cancel(ride_id, desk.operator)
        assert (answer.status_code, answer.json()["ride_status"]) == (409, status)
    assert await desk.timeline(ride_id) == timeline


@pytest.mark.parametrize("status", STATES)
async def test_schema_refuses_every_move_not_in_the_table(desk: Desk, status: Status) -> None:
    """All other constraints are satisfied: only the move itself is wrong."""
    ride_id, _ = await ride_in(desk, status)
    for end in STATES:
        if end in MOVES[status]:
            continue
        with pytest.raises(asyncpg.CheckViolationError) as refusal:
            await _move(desk, ride_id, status, end)
        assert refusal.value.constraint_name == "only_allowed_moves"
    assert await desk.status(ride_id) == status


async def _move(desk: Desk, ride_id: UUID, start: Status, end: Status) -> None:
    driven = end in (*DRIVEN, "COMPLETED", "PAID", "PAYMENT_EXPIRED")
    async with desk.database.transaction() as db:
        await db.execute(
            "UPDATE rides SET status = $2, version = version + 1, final_fare_cents = 1,"
            " accepted_driver_id = CASE WHEN $3 THEN gen_random_uuid() END,"
            " accepted_at = CASE WHEN $3 THEN now() END,"
            " canceled_by = CASE WHEN $2 = 'CANCELED' THEN 'system' END WHERE id = $1",
            ride_id,
            end,
            driven,
        )
        await db.execute(
            "INSERT INTO ride_events (ride_id, seq, from_status, to_status, round, actor, news)"
            " SELECT id, version, $2, $3, round, 'system', 'ride.cancelled' FROM rides WHERE id = $1",
            ride_id,
            start,
            end,
        )


async def test_status_without_its_step_is_refused_at_commit(desk: Desk) -> None:
    ride_id, _ = await desk.offered()
    for change in ("status = 'SEARCHING'", "status = 'SEARCHING', version = version + 1", "version = 99"):
        with pytest.raises(REFUSED) as refusal:
            await desk.sql(f"UPDATE rides SET {change} WHERE id = $1", ride_id)
        assert refusal.value.constraint_name == "rides_stand_where_their_steps_end"
    assert await desk.status(ride_id) == "OFFERED"


async def test_ride_without_its_first_step_is_refused_at_commit(desk: Desk) -> None:
    passenger_id = await desk.new_driver()
    with pytest.raises(REFUSED):
        await desk.sql(
            "INSERT INTO rides (id, passenger_id, pickup_lat, pickup_lon, deadline_at)"
            " VALUES (gen_random_uuid(), $1, 0, 0, now())",
            passenger_id,
        )


@pytest.mark.parametrize(
    ("seq", "start", "end"),
    [
        (4, "OFFERED", "SEARCHING"),  # a gap in the numbers
        (2, "REQUESTED", "SEARCHING"),  # a repeated number
        (3, "SEARCHING", "OFFERED"),  # not where the last step ended
        (3, None, "SEARCHING"),  # no previous status
        (1, None, "REQUESTED"),  # a second first step
        (0, None, "REQUESTED"),
    ],
)
async def test_steps_cannot_skip_repeat_or_begin_elsewhere(
    desk: Desk, seq: int, start: str | None, end: str
) -> None:
    ride_id, _ = await desk.offered()
    with pytest.raises(REFUSED):
        await desk.sql(
            "INSERT INTO ride_events (ride_id, seq, from_status, to_status, round, actor, news)"
            " VALUES ($1, $2, $3, $4, 1, 'system', 'ride.cancelled')",
            ride_id,
            seq,
            start,
            end,
        )


async def test_steps_cannot_be_deleted(desk: Desk) -> None:
    ride_id, _ = await desk.accepted()
    for seq in (2, 3):
        with pytest.raises(REFUSED):
            await desk.sql("DELETE FROM ride_events WHERE ride_id = $1 AND seq = $2", ride_id, seq)


async def test_timeline_has_every_step_with_time_and_actor(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    timeline = await desk.timeline(ride_id)
    steps = timeline["steps"]
    assert [step["seq"] for step in steps] == [1, 2, 3, 4, 5, 6]
    assert [step["to_status"] for step in steps] == [
        "REQUESTED", "OFFERED", "ACCEPTED", "ARRIVING", "STARTED", "COMPLETED",
    ]  # fmt: skip
    for before, after in pairwise(steps):
        assert after["from_status"] == before["to_status"]
        assert after["at"] >= before["at"]
    ride = await desk.read(ride_id)
    times = [ride[f"{name}_at"] for name in ("created", "accepted", "arrived", "started", "completed")]
    assert times == [step["at"] for step in steps if step["to_status"] != "OFFERED"]
    assert timeline["status"] == "COMPLETED"
