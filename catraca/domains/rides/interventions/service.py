"""End a driven ride as an operator: its driver does not end it, or cannot."""

from uuid import UUID

from catraca.domains.rides.errors import FareMissing, RideMoveNotAllowed, RideNotFound
from catraca.domains.rides.interventions import store
from catraca.domains.rides.interventions.model import EndOutcome, EndReason
from catraca.domains.rides.model import Ride, RideId
from catraca.domains.rides.search.service import close_ride
from catraca.domains.rides.store import lock_ride
from catraca.domains.rides.trips.service import finish_ride
from catraca.platform.database import Db, audit


async def end_ride(
    db: Db,
    ride_id: RideId,
    *,
    outcome: EndOutcome,
    reason: EndReason,
    fare_cents: int | None = None,
    by: UUID,
) -> Ride:
    """Complete a started ride, or cancel a driven one; release its driver. Audited.

    A completed ride costs `fare_cents`, or without it the estimate. A repeat returns the ride as it ended.
    """
    ride = await lock_ride(db, ride_id)
    if ride is None:
        raise RideNotFound
    if await _was_ended_so(db, ride, outcome=outcome, reason=reason, fare_cents=fare_cents):
        return ride
    if outcome == "completed":
        ride.check_move("COMPLETED")
        fare = ride.estimated_fare_cents if fare_cents is None else fare_cents
        if fare is None:
            raise FareMissing
        ride = await finish_ride(db, ride, {"final_fare_cents": fare}, actor="operator", by=by, reason=reason)
    else:
        if not ride.is_driven:
            raise RideMoveNotAllowed(ride_status=ride.status)
        ride = await close_ride(
            db, ride, "CANCELED", actor="operator", actor_id=by, reason=reason, offer_reason="ride_canceled"
        )
    await audit.record(
        db,
        actor_id=by,
        action="ride.ended",
        subject_kind="ride",
        subject_id=ride.id,
        data={"outcome": outcome, "reason": reason, "fare_cents": ride.final_fare_cents},
    )
    return ride


async def _was_ended_so(
    db: Db, ride: Ride, *, outcome: EndOutcome, reason: EndReason, fare_cents: int | None
) -> bool:
    """True if an operator has ended the ride with this outcome, reason and fare."""
    same_fare = fare_cents is None or fare_cents == ride.final_fare_cents
    status = "COMPLETED" if outcome == "completed" else "CANCELED"
    return same_fare and await store.step_to(db, ride, status) == ("operator", reason)
