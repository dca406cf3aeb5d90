"""Inserts notifications for events about rides, searches and appointments; a batch in one transaction."""

from collections.abc import Mapping, Sequence

from catraca.domains.notifications.messages.service import Notifier
from catraca.domains.notifications.model import SourceEvent
from catraca.events import (
    AppointmentBooked,
    AppointmentCanceled,
    AppointmentConfirmed,
    AppointmentMissed,
    AppointmentNear,
    AppointmentRescheduled,
    CandidateFound,
    ConfirmationExpired,
    MatchingTimeout,
    NoDriversAvailable,
    OfferCanceled,
    RideArriving,
    RideCancelled,
    RideCompleted,
    RideMatched,
    RidePaid,
    RidePaymentExpired,
    RideReassigning,
    RideStarted,
    SlotOffered,
)
from catraca.platform.bus import Message, batch_handlers
from catraca.platform.database import Db
from catraca.platform.event import Event

EVENTS: Mapping[str, tuple[type[Event], ...]] = {
    "notification_rides_queue": (
        ConfirmationExpired,
        RideMatched,
        RideArriving,
        RideStarted,
        RideCompleted,
        RideCancelled,
        RideReassigning,
        RidePaid,
        RidePaymentExpired,
    ),
    "notification_matching_queue": (CandidateFound, MatchingTimeout, NoDriversAvailable, OfferCanceled),
    "notification_appointments_queue": (
        AppointmentBooked,
        AppointmentRescheduled,
        AppointmentConfirmed,
        AppointmentCanceled,
        AppointmentMissed,
        AppointmentNear,
        SlotOffered,
    ),
}


def _prepare(event: Event, message: Message) -> SourceEvent:
    return SourceEvent(message.id, event)


async def _write(db: Db, sources: Sequence[SourceEvent], notifier: Notifier) -> None:
    await notifier.notify(db, sources)


HANDLERS = tuple(
    batch_handlers(queue, kinds, prepare=_prepare, write=_write) for queue, kinds in EVENTS.items()
)
