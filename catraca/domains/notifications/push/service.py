"""Web push: reaches devices that are not connected, through the push service of their maker."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import msgspec
from prometheus_client import Counter

from catraca.domains.notifications.model import NewNotification
from catraca.domains.notifications.push import store
from catraca.domains.notifications.push.errors import PushEndpointRefused, PushEndpointTaken, PushKeysInvalid
from catraca.domains.notifications.push.store import Device, PendingPush
from catraca.domains.people import PersonalData
from catraca.events import PushDue
from catraca.platform.auth import Principal
from catraca.platform.call_limits import KeyLimits, NoTurn
from catraca.platform.clock import now
from catraca.platform.database import Database, Db, outbox
from catraca.platform.web_push import (
    PAYLOAD_BYTES,
    Pusher,
    PushFailed,
    PushGone,
    PushHosts,
    Subscription,
    Urgency,
    read_keys,
)

PUSHES = Counter("catraca_pushes_total", "Web pushes, by outcome.", ["outcome"])

APP_NAME = "Catraca"
MAX_DEVICES = 10
PUSHES_PER_PERSON, PERSON_WAIT_SECONDS = 2, 1.0
Outcome = Literal["not_needed", "too_late", "sent", "gone"]
RIDE_LIFETIME = timedelta(hours=1)
# Also not after the appointment begins.
APPOINTMENT_LIFETIME = timedelta(days=1)
# `ride.accepted` is not here, because `ride.matched` follows at once; `ride.started` neither, because the
# passenger is in the car.
PUSHED_TYPES = frozenset(
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
URGENT_TYPES = frozenset(
    {
        "matching.candidate_found",
        "ride.matched",
        "ride.arriving",
        "offer.canceled",
        "appointment.slot_offered",
    }
)


async def subscribe_device(
    db: Db, caller: Principal, subscription: Subscription, *, hosts: PushHosts
) -> Device:
    """Subscribe a device, or renew it. Deletes the user's oldest devices beyond the maximum.

    A device of another account moves to the caller if its keys are given: then it is the same device.
    """
    if not hosts.allow(subscription.endpoint):
        raise PushEndpointRefused
    if not read_keys(subscription.p256dh, subscription.auth):
        raise PushKeysInvalid
    device = await store.save_subscription(db, caller.id, subscription, granted_at=caller.issued_at)
    if device is None:
        raise PushEndpointTaken
    await store.delete_oldest(db, caller.id, keep=MAX_DEVICES)
    return device


async def list_devices(db: Db, user_id: UUID) -> list[Device]:
    return await store.read_devices(db, user_id)


async def unsubscribe_device(db: Db, user_id: UUID, subscription_id: UUID) -> None:
    await store.delete_subscription(db, user_id, subscription_id)


async def _export(db: Db, user_id: UUID) -> object:
    """The user's devices without their keys, which only encrypt messages to them."""
    return [asdict(device) for device in await store.read_devices(db, user_id)]


DEVICE_DATA = PersonalData("push_devices", export=_export, erase=store.delete_devices)


async def schedule_pushes(db: Db, numbered: Sequence[tuple[NewNotification, int]]) -> None:
    """Record one `PushDue` event for each device of each reader of these notifications and their numbers."""
    pushed = [
        (one.user_id, seq) for one, seq in numbered if not one.quiet and one.notice.type in PUSHED_TYPES
    ]
    if not pushed:
        return
    devices = await store.subscriptions_of(db, {user_id for user_id, _ in pushed})
    if devices:
        await outbox.record(
            db,
            *(
                PushDue(subscription_id=subscription_id, user_id=reader_id, seq=seq)
                for reader_id, seq in pushed
                for user_id, subscription_id in devices
                if user_id == reader_id
            ),
        )


@dataclass(frozen=True, slots=True)
class PushMessage:
    payload: bytes
    ttl: timedelta
    urgency: Urgency


def build_push(pending: PendingPush, *, seq: int, age: timedelta) -> PushMessage | None:
    """Return None if the push would arrive too late."""
    data: dict[str, Any] = msgspec.json.decode(pending.data)
    left = (APPOINTMENT_LIFETIME if "appointment_id" in data else RIDE_LIFETIME) - age
    if (ends_at := data.get("expires_at", data.get("starts_at"))) is not None:
        left = min(left, datetime.fromisoformat(ends_at) - now())
    if left < timedelta(seconds=1):
        return None
    short = {
        "seq": seq,
        "type": pending.type,
        "title": data.get("title", APP_NAME),
        "message": data.get("message", ""),
    }
    whole = msgspec.json.encode({**short, "data": data})
    payload = whole if len(whole) <= PAYLOAD_BYTES else msgspec.json.encode(short)
    return PushMessage(payload, left, "high" if pending.type in URGENT_TYPES else "normal")


class PushSender:
    """Sends due pushes, without a transaction: a silent push service keeps no database connection.

    Few pushes of one person are sent at a time, so that a person's dead devices do not take all senders.
    """

    def __init__(self, database: Database, pusher: Pusher) -> None:
        self._database = database
        self._pusher = pusher
        self._limits = KeyLimits(at_once=PUSHES_PER_PERSON, wait_seconds=PERSON_WAIT_SECONDS)

    async def send(self, event: PushDue) -> Outcome:
        """Send a push, unless it is acknowledged or too late. Raises `PushFailed`, to be tried again.

        A repeat sends it again: the device shows the same notification.
        """
        try:
            async with self._limits.turn(event.user_id):
                return await self._send(event)
        except NoTurn as error:
            raise PushFailed("person_busy") from error

    async def _send(self, event: PushDue) -> Outcome:
        async with self._database.connection() as db:
            pending = await store.read_pending(
                db, event.subscription_id, user_id=event.user_id, seq=event.seq
            )
        if pending is None or pending.acknowledged:
            return "not_needed"
        message = build_push(pending, seq=event.seq, age=now() - event.timestamp)
        if message is None:
            return "too_late"
        try:
            await self._pusher.push(
                pending.subscription,
                message.payload,
                ttl_seconds=int(message.ttl.total_seconds()),
                urgency=message.urgency,
            )
        except PushGone:
            return "gone"
        return "sent"


async def record_outcome(db: Db, event: PushDue, outcome: Outcome) -> None:
    """Delete a device that is gone. Safe to repeat."""
    if outcome == "gone":
        await store.delete_subscription(db, event.user_id, event.subscription_id)
    db.after_commit(PUSHES.labels(outcome).inc)
