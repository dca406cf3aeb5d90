"""A second way to a device, for while it is not connected: through its maker's push service."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec
from prometheus_client import Counter

from catraca.domains.notifications.model import Notification
from catraca.domains.notifications.store import subscriptions as store
from catraca.domains.notifications.store.subscriptions import Due
from catraca.events import PushDue
from catraca.platform.clock import now
from catraca.platform.database import Db, outbox
from catraca.platform.web_push import PAYLOAD_BYTES, Pusher, PushGone, Urgency

PUSHED = Counter("catraca_pushes_total", "Web pushes by what became of them.", ["outcome"])

APP_NAME = "Catraca"
# What happens to a ride is no news much later.
KEPT_FOR = timedelta(hours=1)
# An appointment is, until it begins.
APPOINTMENTS_KEPT_FOR = timedelta(days=1)
# A device is woken for what its person did not do just now, and once for what is said twice.
WOKEN_BY = frozenset(
    {
        "matching.candidate_found",
        "ride.matched",
        "ride.arriving",
        "ride.completed",
        "ride.cancelled",
        "ride.reassigning",
        "offer.canceled",
        "matching.no_drivers_available",
        "appointment.booked",
        "appointment.rescheduled",
        "appointment.confirmed",
        "appointment.canceled",
        "appointment.reminder_due",
        "appointment.slot_offered",
    }
)
URGENT = frozenset(
    {
        "matching.candidate_found",
        "ride.matched",
        "ride.arriving",
        "offer.canceled",
        "appointment.slot_offered",
    }
)


async def make_due(db: Db, written: Sequence[Notification]) -> None:
    """One event for each device of each person who is told something it is to be woken for."""
    waking = [one for one in written if one.type in WOKEN_BY]
    if not waking:
        return
    devices = await store.subscriptions_of(db, {one.user_id for one in waking})
    if devices:
        await outbox.record(
            db,
            *(
                PushDue(subscription_id=subscription_id, user_id=one.user_id, seq=one.seq)
                for one in waking
                for user_id, subscription_id in devices
                if user_id == one.user_id
            ),
        )


@dataclass(frozen=True, slots=True)
class Push:
    payload: bytes
    ttl: timedelta
    urgency: Urgency


def write_push(due: Due, *, seq: int, age: timedelta) -> Push | None:
    """What the device gets; None when it would come too late."""
    data: dict[str, Any] = msgspec.json.decode(due.data)
    left = (APPOINTMENTS_KEPT_FOR if "appointment_id" in data else KEPT_FOR) - age
    if (over_at := data.get("expires_at", data.get("starts_at"))) is not None:
        left = min(left, datetime.fromisoformat(over_at) - now())
    if left < timedelta(seconds=1):
        return None
    said = {
        "seq": seq,
        "type": due.type,
        "title": data.get("title", APP_NAME),
        "message": data.get("message", ""),
    }
    whole = msgspec.json.encode({**said, "data": data})
    payload = whole if len(whole) <= PAYLOAD_BYTES else msgspec.json.encode(said)
    return Push(payload, left, "high" if due.type in URGENT else "normal")


async def push(db: Db, pusher: Pusher, event: PushDue) -> None:
    """Send it, unless the person has it, or it is over. Raises `PushFailed` when it is to be tried again."""
    due = await store.read_due(db, event.subscription_id, user_id=event.user_id, seq=event.seq)
    if due is None or due.acknowledged:
        PUSHED.labels("not_needed").inc()
        return
    letter = write_push(due, seq=event.seq, age=now() - event.timestamp)
    if letter is None:
        PUSHED.labels("too_late").inc()
        return
    try:
        await pusher.push(
            due.subscription,
            letter.payload,
            ttl_seconds=int(letter.ttl.total_seconds()),
            urgency=letter.urgency,
        )
    except PushGone:
        await store.remove_subscription(db, event.user_id, event.subscription_id)
        PUSHED.labels("gone").inc()
    else:
        PUSHED.labels("sent").inc()
