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
    RideReassigning,
    RideStarted,
    SlotOffered,
)
from catraca.platform.bus import Message
from catraca.platform.bus.batch_worker import BatchHandlers
from catraca.platform.bus.handlers import EventReader
from catraca.platform.database import Db
from catraca.platform.event import Event, key_of

EVENTS: Mapping[str, tuple[type[Event], ...]] = {
    "notification_rides_queue": (
        ConfirmationExpired,
        RideMatched,
        RideArriving,
        RideStarted,
        RideCompleted,
        RideCancelled,
        RideReassigning,
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
reader = EventReader(kind for kinds in EVENTS.values() for kind in kinds)


def notification_handlers(notifier: Notifier) -> tuple[BatchHandlers[SourceEvent], ...]:
    """Return one set of handlers for each queue."""

    async def write(db: Db, sources: Sequence[SourceEvent]) -> Mapping[int, Exception]:
        await notifier.notify(db, sources)
        return {}

    return tuple(
        BatchHandlers(queue=queue, keys={key_of(kind) for kind in kinds}, prepare=_prepare, write=write)
        for queue, kinds in EVENTS.items()
    )


async def _prepare(message: Message) -> SourceEvent:
    return SourceEvent(message.id, reader.read(message))
