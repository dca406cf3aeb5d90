"""Accept a ride: one winner.

Attempts that arrive together are decided in one statement, in a transaction that has locked their rides.
The database decides: by the lock on the ride's row, the guards in the statement, and the constraints.
Attempts at a ride that this process has seen taken are recorded without the lock. If the ride turns out to
be open again, they are decided with it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from functools import partial
from uuid import UUID

from prometheus_client import Counter, Histogram

from catraca.domains.people import UserId
from catraca.domains.rides.acceptance import store
from catraca.domains.rides.acceptance.model import (
    AcceptedRide,
    Attempt,
    AttemptResult,
    RecordedAttempt,
    TripDetails,
    Win,
    refusal_for,
)
from catraca.domains.rides.errors import RideBeingAccepted, RideNotFound
from catraca.domains.rides.model import RideId
from catraca.domains.rides.store import RIDE_DUE, lock_ride, lock_unlocked_rides, read_ride
from catraca.events import DriverAccepted, OfferCanceled, RideAccepted
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database, Db, GenericPlans, outbox, timers
from catraca.platform.errors import Busy, Refusal
from catraca.platform.event import Event
from catraca.platform.gather import Gather

ACCEPTS = Counter("catraca_ride_accepts_total", "Attempts to accept a ride, by outcome.", ["outcome"])
ACCEPT_SECONDS = Histogram(
    "catraca_ride_accept_seconds",
    "From an attempt's arrival to its answer.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
STEERED = Counter(
    "catraca_ride_accepts_steered_total",
    "Attempts by their way: to the claim, aside as their ride seems taken, or aside and back.",
    ["way"],
)

# Transactions that wait for a locked ride, per process: other requests need connections too.
LOCK_WAITS_AT_ONCE = 3
# An attempt that another transaction recorded at the same moment is found by the next try.
MAX_TRIES = 3
# An attempt that is too late at COMMIT finds its offer expired by the second try.
TRIES_ALONE = 2
TAKEN_RIDES_REMEMBERED = 10_000
# A transaction costs about as much as ten attempts in it; at this pace, more attempts share one.
PACE_SECONDS = 0.003

Decide = Callable[[Db, Sequence[Attempt]], Awaitable[Mapping[UUID, AttemptResult]]]
Attempts = Gather[Attempt, AttemptResult | None]


class Acceptance:
    """Per-process service; safe to run in many processes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Rides that this process has seen taken; the earliest are dropped. Some may be open again.
        self._taken: dict[RideId, None] = {}
        self._claims = self._gather(claim_rides)
        self._losers = self._gather(partial(store.decide_attempts, may_win=False))
        # Attempts at rides locked by other transactions; each ride apart, so that it delays no other.
        self._lock_waits: dict[RideId, Attempts] = {}
        self._lock_waits_limit = asyncio.Semaphore(LOCK_WAITS_AT_ONCE)

    async def accept_ride(self, attempt: Attempt) -> AcceptedRide:
        """Give the ride to this driver, or raise the refusal.

        A repeated attempt gets the same answer; after the driver gave the ride up, or after its end, without
        the passenger and the places.
        """
        began = monotonic_seconds()
        outcome = "failed"
        try:
            result = await self._decide(attempt)
            repeated = result.repeated or result.attempt_id != attempt.id
            outcome = "repeated" if repeated else result.outcome
        except Refusal as refusal:
            outcome = refusal.code
            raise
        finally:
            ACCEPTS.labels(outcome).inc()
            ACCEPT_SECONDS.observe(monotonic_seconds() - began)
        if result.accepted is not None:
            return result.accepted
        assert result.outcome not in ("accepted", "open", "again")
        raise refusal_for(result.outcome, ride_status=result.ride_status)

    async def _decide(self, attempt: Attempt) -> AttemptResult:
        taken = attempt.ride_id in self._taken
        STEERED.labels("aside" if taken else "to_the_claim").inc()
        for _ in range(MAX_TRIES):
            result = await (self._losers if taken else self._claims).ask(attempt)
            if result is None and not taken:  # unknown, or locked by another transaction
                result = await self._wait_and_claim(attempt)
            if result is None:
                raise RideNotFound
            if result.outcome == "open":
                taken = False
                self._taken.pop(attempt.ride_id, None)
                STEERED.labels("aside_and_back").inc()
            elif result.outcome != "again":
                return result
        raise Busy

    async def _wait_and_claim(self, attempt: Attempt) -> AttemptResult | None:
        if attempt.ride_id not in self._lock_waits:
            self._lock_waits[attempt.ride_id] = self._gather(claim_locked_ride, self._lock_waits_limit)
        try:
            return await self._lock_waits[attempt.ride_id].ask(attempt)
        except Busy as busy:
            raise RideBeingAccepted from busy
        finally:
            self._lock_waits.pop(attempt.ride_id, None)

    def _gather(self, decide: Decide, limit: AbstractAsyncContextManager[object] | None = None) -> Attempts:
        """Decide attempts together, at most one per driver: the outcome of a second depends on the first."""
        limited = limit or nullcontext()

        async def run(attempts: Sequence[Attempt]) -> list[AttemptResult | None]:
            async with limited:
                results = await self._database.run(lambda db: decide(db, attempts), GenericPlans())
            self._remember_taken(attempts, results)
            return [results.get(attempt.id) for attempt in attempts]

        return Gather(run, same=_identity, apart=_driver, tries_alone=TRIES_ALONE, pace_seconds=PACE_SECONDS)

    def _remember_taken(self, attempts: Sequence[Attempt], results: Mapping[UUID, AttemptResult]) -> None:
        for attempt in attempts:
            result = results.get(attempt.id)
            # A repeat says nothing about the ride's present state.
            if result and not result.repeated and (result.win or result.outcome == "ride_already_accepted"):
                self._taken[attempt.ride_id] = None
        while len(self._taken) > TAKEN_RIDES_REMEMBERED:
            del self._taken[next(iter(self._taken))]


def _identity(attempt: Attempt) -> tuple[RideId, UserId, str | None]:
    """Attempts with the same identity are repeats of one attempt."""
    return attempt.ride_id, attempt.driver_id, attempt.idempotency_key


def _driver(attempt: Attempt) -> UserId:
    return attempt.driver_id


async def claim_rides(db: Db, attempts: Sequence[Attempt]) -> dict[UUID, AttemptResult]:
    """Decide the attempts at rides that no other transaction has locked; the others have no result."""
    locked = await lock_unlocked_rides(db, (attempt.ride_id for attempt in attempts))
    return await _claim(db, [attempt for attempt in attempts if attempt.ride_id in locked])


async def claim_locked_ride(db: Db, attempts: Sequence[Attempt]) -> dict[UUID, AttemptResult]:
    """Wait for the lock on the attempts' ride, and decide them."""
    await lock_ride(db, attempts[0].ride_id)
    return await _claim(db, attempts)


async def _claim(db: Db, attempts: Sequence[Attempt]) -> dict[UUID, AttemptResult]:
    results = await store.decide_attempts(db, attempts, may_win=True) if attempts else {}
    events: list[Event] = []
    ride_ids: list[RideId] = []
    for result in results.values():
        if result.win is not None:
            if result.accepted is None:  # another transaction recorded this attempt meanwhile
                raise Busy
            assert result.accepted.details is not None, "the driver has just got the ride"
            events += _events(result.accepted, result.accepted.details, result.win)
            ride_ids.append(result.accepted.ride_id)
    if ride_ids:
        await outbox.record(db, *events)
        await timers.cancel_timer(db, RIDE_DUE, *ride_ids)
    return results


def _events(accepted: AcceptedRide, details: TripDetails, win: Win) -> list[Event]:
    return [
        RideAccepted(
            ride_id=accepted.ride_id,
            round=win.round,
            driver_id=accepted.driver_id,
            passenger_id=details.passenger_id,
            offer_id=win.offer_id,
            accepted_at=accepted.accepted_at,
            pickup_lat=details.pickup_lat,
            pickup_lon=details.pickup_lon,
        ),
        DriverAccepted(
            offer_id=win.offer_id,
            ride_id=accepted.ride_id,
            driver_id=accepted.driver_id,
            round=win.round,
            attempt=win.attempt,
            rider_id=details.passenger_id,
            accepted_at=accepted.accepted_at,
        ),
        *(
            OfferCanceled(
                offer_id=lost.id,
                ride_id=accepted.ride_id,
                driver_id=lost.driver_id,
                round=win.round,
                attempt=lost.attempt,
                reason="accepted_by_another_driver",
            )
            for lost in win.lost
        ),
    ]


async def read_attempts(db: Db, ride_id: RideId, *, after: UUID | None, limit: int) -> list[RecordedAttempt]:
    """Return the attempts at a ride, in order of arrival."""
    if await read_ride(db, ride_id) is None:
        raise RideNotFound
    return await store.read_attempts(db, ride_id, after=after, limit=limit)


async def prune_attempts(db: Db, *, older_than: timedelta, limit: int = 1000) -> int:
    """Delete the attempts at rides that ended longer ago than that, at most `limit`; returns how many.

    A ride that has not ended keeps all attempts: they are the answers to repeats.
    """
    return await store.prune_attempts(db, older_than=older_than, limit=limit)
