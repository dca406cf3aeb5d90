"""Constraints of the schema: one ride per driver, one offer, one winner, in time."""

from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.domains.rides.desk import Desk


async def refused_by(desk: Desk, constraint: str, *statements: tuple[Any, ...]) -> None:
    """Check that these statements, in one transaction, are refused by this constraint."""
    with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refusal:
        async with desk.database.transaction() as db:
            for statement in statements:
                await db.execute(*statement)
    assert refusal.value.constraint_name == constraint


def an_offer(ride_id: UUID, driver_id: UUID, *, response: str | None = None, held: bool = True) -> tuple:
    return (
        (
            "INSERT INTO ride_offers (id, ride_id, driver_id, round, attempt, expires_at, response,"
            " responded_at, held) SELECT $1, $2, $3, 1, 99, clock_timestamp() + '1 min', $4,"
            " CASE WHEN $4::text IS NOT NULL THEN clock_timestamp() END, $5"
        ),
        uuid4(),
        ride_id,
        driver_id,
        response,
        held,
    )


async def test_driver_cannot_have_two_live_offers(desk: Desk) -> None:
    _, (driver_id,) = await desk.offered()
    await refused_by(desk, "one_held_offer_a_driver", an_offer(await desk.request(), driver_id))


async def test_driver_on_a_ride_cannot_have_an_offer(desk: Desk) -> None:
    _, driver_id = await desk.accepted()
    await refused_by(desk, "one_held_offer_a_driver", an_offer(await desk.request(), driver_id))


async def test_live_offer_always_holds_its_driver(desk: Desk) -> None:
    """Otherwise a driver could have two live offers."""
    ride_id, (driver_id,) = await desk.offered()
    free = ("UPDATE ride_offers SET held = false WHERE ride_id = $1", ride_id)
    await refused_by(desk, "live_offers_hold_their_driver", free)
    other = await desk.request()
    await refused_by(desk, "live_offers_hold_their_driver", an_offer(other, driver_id, held=False))


async def test_driver_cannot_have_two_rides(desk: Desk) -> None:
    _, driver_id = await desk.accepted()
    other, (other_id,) = await desk.offered()
    await desk.accept(other, other_id)
    swap = ("UPDATE rides SET accepted_driver_id = $2 WHERE id = $1", other, driver_id)
    await refused_by(desk, "one_ride_at_a_time_a_driver", swap)


async def test_round_cannot_have_two_winners(desk: Desk) -> None:
    ride_id, _ = await desk.accepted()
    other_id = await desk.new_driver()
    second = an_offer(ride_id, other_id, response="ACCEPTED")
    await refused_by(desk, "one_winner_a_round", second)


async def test_passenger_cannot_have_two_open_rides(desk: Desk) -> None:
    passenger_id, other_id = uuid4(), uuid4()
    await desk.request(passenger_id)
    other = await desk.request(other_id)
    swap = ("UPDATE rides SET passenger_id = $2 WHERE id = $1", other, passenger_id)
    await refused_by(desk, "one_open_ride_a_passenger", swap)


async def test_passenger_cannot_drive_the_own_ride(desk: Desk) -> None:
    ride_id, _ = await desk.accepted()
    own = ("UPDATE rides SET accepted_driver_id = passenger_id WHERE id = $1", ride_id)
    await refused_by(desk, "nobody_drives_themselves", own)


async def test_late_acceptance_is_refused_by_its_time(desk: Desk) -> None:
    ride_id, _ = await desk.offered()
    late = (
        "UPDATE ride_offers SET response = 'ACCEPTED', responded_at = expires_at WHERE ride_id = $1",
        ride_id,
    )
    await refused_by(desk, "offers_are_accepted_in_time", late)


async def test_acceptance_with_a_late_commit_is_refused(desk: Desk) -> None:
    """The statement was in time, but the COMMIT comes after the offer's end."""
    ride_id, _ = await desk.offered()
    await desk.sql(
        "UPDATE ride_offers SET expires_at = clock_timestamp() + '0.2 s' WHERE ride_id = $1", ride_id
    )
    in_time = (
        "UPDATE ride_offers SET response = 'ACCEPTED', responded_at = offered_at WHERE ride_id = $1",
        ride_id,
    )
    await refused_by(desk, "acceptances_commit_in_time", in_time, ("SELECT pg_sleep(0.25)",))
    assert [one["response"] for one in (await desk.timeline(ride_id))["offers"]] == [None]


async def test_only_accepted_rides_have_a_driver(desk: Desk) -> None:
    taken, _ = await desk.accepted()
    lose = ("UPDATE rides SET accepted_driver_id = NULL, accepted_at = NULL WHERE id = $1", taken)
    await refused_by(desk, "accepted_rides_have_a_driver", lose)
    ride_id, (driver_id,) = await desk.offered()
    gain = ("UPDATE rides SET accepted_driver_id = $2, accepted_at = now() WHERE id = $1", ride_id, driver_id)
    await refused_by(desk, "accepted_rides_have_a_driver", gain)
    half = ("UPDATE rides SET accepted_at = NULL WHERE id = $1", taken)
    await refused_by(desk, "acceptances_have_their_time", half)


async def test_attempt_is_recorded_once(desk: Desk) -> None:
    ride_id, _ = await desk.accepted()
    again = (
        (
            "INSERT INTO ride_accept_attempts SELECT gen_random_uuid(), ride_id, driver_id, offer_id,"
            " idempotency_key, status, failure_reason, ride_status, attempt_at, completed_at, actor_id,"
            " request_id, user_agent, ip_address, place + 1 FROM ride_accept_attempts WHERE ride_id = $1"
        ),
        ride_id,
    )
    await refused_by(desk, "one_attempt_a_driver_key_and_offer", again)


async def test_attempt_without_an_offer_is_recorded_once(desk: Desk) -> None:
    ride_id, driver_id = await desk.request(), await desk.new_driver()
    await desk.accept(ride_id, driver_id, "k")
    again = (
        (
            "INSERT INTO ride_accept_attempts (id, ride_id, driver_id, idempotency_key, status,"
            " failure_reason, ride_status, attempt_at, completed_at, actor_id, place)"
            " VALUES (gen_random_uuid(), $1, $2, 'k', 'FAILED', 'x', 'REQUESTED', now(), now(), $2, -1)"
        ),
        ride_id,
        driver_id,
    )
    await refused_by(desk, "one_attempt_a_driver_key_and_offer", again)
