"""Move a completed ride to `PAID` or `PAYMENT_EXPIRED`. Billing decides when."""

from uuid import UUID

from catraca.domains.rides.model import Actor, Ride, RideId, parties
from catraca.domains.rides.store import lock_ride, move_ride
from catraca.events import RidePaid, RidePaymentExpired
from catraca.platform.database import Db, outbox


async def pay_ride(db: Db, ride_id: RideId, *, actor: Actor, by: UUID | None) -> None:
    """Move the ride to `PAID`, also after its time to pay. A repeat changes nothing."""
    ride = await _lock(db, ride_id)
    if ride.status == "PAID":
        return
    ride.check_move("PAID")
    ride = await move_ride(db, ride, "PAID", actor=actor, actor_id=by, news="ride.paid")
    assert ride.final_fare_cents is not None, "a completed ride has a fare"
    await outbox.record(
        db, RidePaid(**parties(ride), fare_cents=ride.final_fare_cents, paid_at=ride.updated_at)
    )


async def expire_payment(db: Db, ride_id: RideId) -> None:
    """Move the ride to `PAYMENT_EXPIRED`; no change unless it is `COMPLETED`."""
    ride = await _lock(db, ride_id)
    if ride.status != "COMPLETED":
        return
    ride = await move_ride(
        db, ride, "PAYMENT_EXPIRED", actor="system", actor_id=None, news="ride.payment_expired"
    )
    assert ride.final_fare_cents is not None, "a completed ride has a fare"
    await outbox.record(
        db, RidePaymentExpired(**parties(ride), fare_cents=ride.final_fare_cents, expired_at=ride.updated_at)
    )


async def _lock(db: Db, ride_id: RideId) -> Ride:
    ride = await lock_ride(db, ride_id)
    assert ride is not None, "rides are never deleted"
    return ride
