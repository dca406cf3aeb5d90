"""What becomes of a question, each written down: settled, answered again, refused, expired."""

from uuid import UUID

import msgspec
from prometheus_client import Counter, Histogram

from catraca.domains import people, rides
from catraca.domains.geofences import store
from catraca.domains.geofences.errors import ConfirmationTokenExpired, ConfirmationTokenInvalid
from catraca.domains.geofences.model import Answer, Confirmation, CreatedBefore, Refused
from catraca.domains.people import UserId
from catraca.domains.rides import Ride
from catraca.events import ConfirmationExpired
from catraca.platform.database import Db, after_commit, audit, outbox, timers
from catraca.platform.database.timers import TimerKind
from catraca.platform.errors import Refusal

CONFIRMATION_DUE = TimerKind("geofences.confirmation_due")
CONFIRMATIONS = Counter(
    "catraca_confirmations_total",
    "Questions whether drivers from elsewhere will do, by outcome.",
    ["outcome"],
)
THOUGHT = Histogram(
    "catraca_confirmation_seconds",
    "From the question to its confirmation.",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300),
)


async def settle(db: Db, confirmation: Confirmation, ride: Ride, *, by: UUID) -> None:
    await timers.cancel_timer(db, CONFIRMATION_DUE, confirmation.id)
    await record(db, "confirmed", confirmation, by=by)
    thought = ride.created_at - confirmation.created_at
    after_commit(db, lambda: THOUGHT.observe(thought.total_seconds()))


async def answer_again(db: Db, found: Confirmation, *, by: UUID) -> Answer:
    if found.ride_id is None:
        return await refuse(db, ConfirmationTokenExpired(expired_at=found.expires_at), found, by=by)
    found_rides = await rides.read_rides(db, [found.ride_id])
    await record(db, "replayed", found, by=by)
    return CreatedBefore(found_rides[found.ride_id])


async def refuse(db: Db, refusal: Refusal, found: Confirmation, *, by: UUID) -> Refused:
    """Not raised, which would undo that it is written down."""
    await record(db, "refused", found, by=by, reason=refusal.code)
    return Refused(refusal)


async def turn_away(db: Db, passenger_id: UserId, *, by: UUID) -> Refused:
    """The same for a token that is none of the passenger's."""
    await audit.record(
        db, actor_id=by, action="user.confirmation_guessed", subject_kind="user", subject_id=passenger_id
    )
    after_commit(db, lambda: CONFIRMATIONS.labels("guessed").inc())
    return Refused(ConfirmationTokenInvalid())


async def expire_confirmation(db: Db, confirmation_id: UUID) -> None:
    """Close a question that nobody answered in time, and tell the passenger; safe to repeat."""
    expired = await store.expire(db, confirmation_id)
    if expired is None:
        return
    await timers.cancel_timer(db, CONFIRMATION_DUE, expired.id)
    await record(db, "expired", expired, by=None)
    await outbox.record(
        db,
        ConfirmationExpired(
            confirmation_id=expired.id, rider_id=expired.passenger_id, expires_at=expired.expires_at
        ),
    )


async def record(
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
    after_commit(db, lambda: CONFIRMATIONS.labels(outcome).inc())


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
