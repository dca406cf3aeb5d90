"""Attempts that arrive together are decided together, and do not affect each other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID, uuid4

import asyncpg
import pytest

from catraca.domains.rides.acceptance.model import AcceptedRide
from catraca.domains.rides.acceptance.service import Acceptance
from catraca.platform.database import Database, DatabaseLimits, Db
from catraca.platform.errors import Busy
from catraca.roles.parts import Parts
from tests.domains.rides.attempts import all_at_once, attempt_at, codes, waiting_for_locks
from tests.domains.rides.desk import Desk
from tests.servers import Stack, until
from tests.support.http import served

HASTY = DatabaseLimits(lock_seconds=0.3)


@pytest.fixture
def acceptance(database: Database) -> Acceptance:
    """Without Redis, so that simultaneous attempts go into one statement."""
    return Acceptance(database)


@asynccontextmanager
async def ride_locked(database: Database, ride_id: UUID) -> AsyncIterator[Db]:
    """Lock the ride in another transaction until the block ends."""
    async with database.transaction() as db:
        await db.execute("SELECT FROM rides WHERE id = $1 FOR NO KEY UPDATE", ride_id)
        yield db


async def test_simultaneous_attempts_share_one_statement(desk: Desk, acceptance: Acceptance) -> None:
    offered = [await desk.offered() for _ in range(5)]
    outcomes = await all_at_once(acceptance, *(attempt_at(ride, driver) for ride, (driver,) in offered))
    assert codes(outcomes) == ["AcceptedRide"] * 5
    moments = {(await desk.attempts(ride))[0]["attempt_at"] for ride, _ in offered}
    assert len(moments) == 1


async def test_bad_attempt_fails_alone(desk: Desk, acceptance: Acceptance) -> None:
    """The shared statement fails; then each attempt is decided alone."""
    ride_id, (bad_id, good_id) = await desk.offered(2)
    other, (other_id,) = await desk.offered()
    outcomes = await all_at_once(
        acceptance,
        attempt_at(ride_id, bad_id, ip_address="no address"),
        attempt_at(ride_id, good_id),
        attempt_at(other, other_id),
    )
    assert isinstance(outcomes[0], asyncpg.DataError)
    assert codes(outcomes[1:]) == ["AcceptedRide", "AcceptedRide"]
    (attempt,) = await desk.attempts(ride_id)
    assert attempt["driver_id"] == str(good_id)


async def test_attempt_refused_at_commit_fails_alone(desk: Desk, acceptance: Acceptance) -> None:
    """The late acceptance is rolled back and decided again: by then its offer has expired."""
    late, (late_id,) = await desk.offered()
    good, (good_id,) = await desk.offered()
    await desk.sql("UPDATE ride_offers SET expires_at = clock_timestamp() + '0.4 s' WHERE ride_id = $1", late)
    async with (
        desk.database.transaction() as db
    ):  # the acceptance waits for the timer's row, past its offer's end
        await db.execute("SELECT FROM timers WHERE subject_id = $1 FOR UPDATE", late)
        attempts = asyncio.create_task(
            all_at_once(acceptance, attempt_at(late, late_id), attempt_at(good, good_id))
        )
        await until(lambda: _lapsed(desk, late))
    assert codes(await attempts) == ["offer_expired", "AcceptedRide"]
    assert await desk.status(late) == "OFFERED"
    assert await desk.event_keys(late) == ["ride.requested"]
    (attempt,) = await desk.attempts(late)
    assert attempt["failure_reason"] == "offer_expired"


async def _lapsed(desk: Desk, ride_id: UUID) -> bool:
    rows = await desk.sql(
        "SELECT FROM ride_offers WHERE ride_id = $1 AND expires_at <= clock_timestamp()", ride_id
    )
    return bool(rows)


async def test_attempts_of_one_driver_are_decided_in_order(desk: Desk, acceptance: Acceptance) -> None:
    ride_id, (driver_id,) = await desk.offered()
    never_offered = await desk.request()
    outcomes = await all_at_once(
        acceptance,
        attempt_at(ride_id, driver_id, "one"),
        attempt_at(ride_id, driver_id, "two"),
        attempt_at(never_offered, driver_id, "one"),
    )
    assert codes(outcomes) == ["AcceptedRide", "ride_already_accepted", "idempotency_key_reused"]
    assert [one["failure_reason"] for one in await desk.attempts(ride_id)] == [None, "accepted_by_you"]


async def test_repeated_attempts_in_one_batch_are_one(desk: Desk, acceptance: Acceptance) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    attempts = [attempt_at(ride_id, driver, "k") for _ in range(20) for driver in (winner_id, loser_id)]
    outcomes = await all_at_once(acceptance, *attempts)
    assert codes(outcomes) == ["AcceptedRide", "ride_already_accepted"] * 20
    assert len({outcome for outcome in outcomes if isinstance(outcome, AcceptedRide)}) == 1
    kept = await desk.attempts(ride_id)
    assert [(one["driver_id"], one["status"]) for one in kept] == [
        (str(winner_id), "SUCCESS"),
        (str(loser_id), "FAILED"),
    ]


async def test_thousand_attempts_at_one_ride_are_all_answered(desk: Desk, acceptance: Acceptance) -> None:
    """They need more than one statement."""
    ride_id, drivers = await desk.offered(1000)
    outcomes = await all_at_once(acceptance, *(attempt_at(ride_id, driver) for driver in drivers))
    assert codes(outcomes).count("AcceptedRide") == 1
    assert codes(outcomes).count("ride_already_accepted") == 999
    assert len(await desk.attempts(ride_id)) == 1000


async def test_locked_ride_does_not_delay_other_rides(desk: Desk, acceptance: Acceptance) -> None:
    held, (held_id,) = await desk.offered()
    free, (free_id,) = await desk.offered()
    async with ride_locked(desk.database, held):
        waiting = asyncio.create_task(all_at_once(acceptance, attempt_at(held, held_id)))
        await until(lambda: waiting_for_locks(desk))
        assert codes(await all_at_once(acceptance, attempt_at(free, free_id))) == ["AcceptedRide"]
        assert not waiting.done()
    assert codes(await waiting) == ["AcceptedRide"]


async def test_ride_locked_too_long_is_busy_and_not_recorded(desk: Desk, stack: Stack, parts: Parts) -> None:
    ride_id, (driver_id,) = await desk.offered()
    hasty = await Database.open(stack.database_url, limits=HASTY)
    async with served(replace(parts, database=hasty)) as api, api.client() as client:
        hasty_desk = Desk(client, desk.database)
        async with ride_locked(desk.database, ride_id):
            answer = await hasty_desk.accept(ride_id, driver_id, "k", **{"accept-language": "en"})
        assert (answer.status_code, answer.json()["code"]) == (503, "busy")
        assert answer.json()["detail"] == "Another driver is accepting this ride. Please try again."
        assert int(answer.headers["retry-after"]) > 0
        assert await desk.attempts(ride_id) == []
        assert (await hasty_desk.accept(ride_id, driver_id, "k")).status_code == 200
    await hasty.close()


async def test_attempt_that_waited_sees_the_committed_change(desk: Desk, acceptance: Acceptance) -> None:
    ride_id, drivers = await desk.offered(3)
    headers, body = desk.operator, {"reason": "operator_decision"}
    async with ride_locked(desk.database, ride_id):
        canceling = asyncio.create_task(desk.act(ride_id, "cancel", headers=headers, json=body))
        await until(lambda: waiting_for_locks(desk))
        attempts = asyncio.create_task(
            all_at_once(acceptance, *(attempt_at(ride_id, driver) for driver in drivers))
        )

        async def both_wait() -> bool:
            return await waiting_for_locks(desk) == 2

        await until(both_wait)
    assert (await canceling).status_code == 200
    assert codes(await attempts) == ["ride_cannot_be_accepted"] * 3
    assert {one["ride_status"] for one in await desk.attempts(ride_id)} == {"CANCELED"}


async def test_database_refusal_reaches_every_attempt_of_a_batch(desk: Desk, stack: Stack) -> None:
    ride_id, drivers = await desk.offered(2)
    full = await Database.open(stack.database_url, limits=DatabaseLimits(connections=1, acquire_seconds=0.6))
    async with full.connection():
        outcomes = await all_at_once(Acceptance(full), *(attempt_at(ride_id, driver) for driver in drivers))
    await full.close()
    assert all(isinstance(outcome, Busy) for outcome in outcomes)
    assert await desk.attempts(ride_id) == []


async def test_disconnected_caller_affects_no_other_attempt(desk: Desk, acceptance: Acceptance) -> None:
    ride_id, (gone_id, other_id) = await desk.offered(2)
    async with ride_locked(desk.database, ride_id):
        gone = asyncio.create_task(acceptance.accept_ride(attempt_at(ride_id, gone_id)))
        stays = asyncio.create_task(all_at_once(acceptance, attempt_at(ride_id, other_id)))
        await until(lambda: waiting_for_locks(desk))
        gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    # The attempt was already sent: its outcome is recorded, and a repeat returns it.
    outcomes = codes([*await stays, *await all_at_once(acceptance, attempt_at(ride_id, gone_id))])
    assert sorted(outcomes) == ["AcceptedRide", "ride_already_accepted"]
    assert len(await desk.attempts(ride_id)) == 2


async def test_win_without_a_recorded_attempt_is_rolled_back(desk: Desk, acceptance: Acceptance) -> None:
    """An accepted ride has a successful attempt and its events, or none of them."""
    ride_id, (driver_id,) = await desk.offered()
    key = f"lost-{uuid4()}"
    await desk.sql("CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    await desk.sql(
        "CREATE TRIGGER leave_out BEFORE INSERT ON ride_accept_attempts FOR EACH ROW"
        f" WHEN (NEW.idempotency_key = '{key}') EXECUTE FUNCTION leave_out()"
    )
    try:
        outcomes = await all_at_once(acceptance, attempt_at(ride_id, driver_id, key))
    finally:
        await desk.sql("DROP TRIGGER leave_out ON ride_accept_attempts")
        await desk.sql("DROP FUNCTION leave_out")
    assert not isinstance(outcomes[0], AcceptedRide)
    assert await desk.status(ride_id) == "OFFERED"
    assert await desk.event_keys(ride_id) == ["ride.requested"]
    assert (await desk.accept(ride_id, driver_id, key)).status_code == 200
