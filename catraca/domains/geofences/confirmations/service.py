"""The outcomes of a confirmation, each in the audit log: issued, confirmed, replayed, refused, expired."""

from uuid import UUID

import msgspec
from prometheus_client import Counter, Histogram

from catraca.domains import people, rides
from catraca.domains.geofences.confirmations import store
from catraca.domains.geofences.errors import ConfirmationTokenExpired, ConfirmationTokenInvalid
from catraca.domains.geofences.model import Answer, Confirmation, RequestRefused, RideCreatedBefore
from catraca.domains.people import UserId
from catraca.domains.rides import Ride
from catraca.events import ConfirmationExpired
from catraca.platform.database import Db, audit, outbox, timers
from catraca.platform.database.timers import TimerKind
from catraca.platform.errors import Refusal

CONFIRMATION_DUE = TimerKind("geofences.confirmation_due")
CONFIRMATIONS = Counter("catraca_confirmations_total", "Confirmations by outcome.", ["outcome"])
CONFIRMATION_SECONDS = Histogram(
    "catraca_confirmation_seconds",
    "Time from the issue of a confirmation to its use.",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300),
)


async def record_issue(db: Db, confirmation: Confirmation, *, is_new: bool, by: UUID) -> None:
    if is_new:
        await timers.set_timer(db, CONFIRMATION_DUE, confirmation.id, due_at=confirmation.expires_at)
    await _record(db, "issued" if is_new else "repeated", confirmation, by=by)


async def record_use(db: Db, confirmation: Confirmation, ride: Ride, *, by: UUID) -> None:
    await timers.cancel_timer(db, CONFIRMATION_DUE, confirmation.id)
    await _record(db, "confirmed", confirmation, by=by)
    waited = ride.created_at - confirmation.created_at
    db.after_commit(lambda: CONFIRMATION_SECONDS.observe(waited.total_seconds()))


async def repeat_answer(db: Db, confirmation: Confirmation, *, by: UUID) -> Answer:
    """The ride of a used confirmation; a refusal if it expired unused."""
    ride_id = confirmation.ride_id
    if ride_id is None:
        expired = ConfirmationTokenExpired(expired_at=confirmation.expires_at)
        return await refuse(db, expired, confirmation, by=by)
    found = await rides.read_rides(db, [ride_id])
    await _record(db, "replayed", confirmation, by=by)
    return RideCreatedBefore(found[ride_id])


async def refuse(db: Db, refusal: Refusal, confirmation: Confirmation, *, by: UUID) -> RequestRefused:
    """Returns the refusal instead of raising it: a rollback would remove the audit entry."""
    await _record(db, "refused", confirmation, by=by, reason=refusal.code)
    return RequestRefused(refusal)


async def refuse_token(db: Db, passenger_id: UserId, *, by: UUID) -> RequestRefused:
    """Like `refuse`, for a token that is not one of the passenger's."""
    await audit.record(
        db, actor_id=by, action="user.confirmation_guessed", subject_kind="user", subject_id=passenger_id
    )
    db.after_commit(lambda: CONFIRMATIONS.labels("guessed").inc())
    return RequestRefused(ConfirmationTokenInvalid())


async def expire_confirmation(db: Db, confirmation_id: UUID) -> None:
    """Mark a confirmation past its time as expired, and publish that; safe to repeat."""
    expired = await store.expire(db, confirmation_id)
    if expired is None:
        return
    await timers.cancel_timer(db, CONFIRMATION_DUE, expired.id)
    await _record(db, "expired", expired, by=None)
    await outbox.record(
        db,
        ConfirmationExpired(
            confirmation_id=expired.id, rider_id=expired.passenger_id, expires_at=expired.expires_at
        ),
    )


async def _record(
    db: Db, outcome: str, confirmation: Confirmation, *, by: UUID | None, **more: object
) -> None:
    await audit.record(
        db,
        actor_id=by,
        action=f"confirmation.{outcome}",
        subject_kind="confirmation",
        subject_id=confirmation.id,
        data={"tier": confirmation.tier, "community_id": confirmation.community_id, **more},
    )
    db.after_commit(lambda: CONFIRMATIONS.labels(outcome).inc())


async def _export(db: Db, user_id: UserId) -> object:
    found = await store.confirmations_of(db, user_id)
    return [
        {
            "asked": msgspec.to_builtins(one.asked),
            "created_at": one.created_at,
            "expires_at": one.expires_at,
            "used_at": one.used_at,
            "ride_id": one.ride_id,
        }
        for one in found
    ] or None


PERSONAL_DATA = people.PersonalData("confirmations", export=_export, erase=store.erase)
