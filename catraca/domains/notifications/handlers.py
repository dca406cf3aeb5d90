"""Reacts to rides, searches and appointments: whoever they concern is told. A batch is written at once."""

from collections.abc import Mapping, Sequence

from catraca.domains.notifications.model import Happened
from catraca.domains.notifications.service.pushing import push
from catraca.domains.notifications.service.telling import Teller
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
    PushDue,
    RideArriving,
    RideCancelled,
    RideCompleted,
    RideMatched,
    RideReassigning,
    RideStarted,
    SlotOffered,
)
from catraca.platform.bus import Message, QueueHandlers, handlers_for
from catraca.platform.bus.batch_worker import BatchHandlers
from catraca.platform.bus.handlers import EventReader
from catraca.platform.database import Db
from catraca.platform.event import Event, key_of
from catraca.platform.web_push import Pusher

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


def make_handlers(teller: Teller) -> tuple[BatchHandlers[Happened], ...]:
    """One for each queue."""

    async def write(db: Db, happenings: Sequence[Happened]) -> Mapping[int, Exception]:
        await teller.tell(db, happenings)
        return {}

    return tuple(
        BatchHandlers(queue=queue, keys={key_of(kind) for kind in kinds}, prepare=_prepare, write=write)
        for queue, kinds in EVENTS.items()
    )


def push_handlers(pusher: Pusher | None) -> QueueHandlers:
    """Without a contact for push services nobody is pushed to."""
    handles = handlers_for("notification_push_queue")

    @handles(PushDue)
    async def wake_device(db: Db, event: PushDue, message: Message) -> None:
        if pusher is not None:
            await push(db, pusher, event)

    return handles


async def _prepare(message: Message) -> Happened:
    return Happened(message.id, reader.read(message))
