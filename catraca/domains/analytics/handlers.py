"""Counts the events of rides and searches, in batches: one changed row per hour and cell of a batch."""

from collections.abc import Mapping, Sequence

from catraca.domains.analytics import service
from catraca.domains.analytics.model import AlertRule, CountedEvent, fact_of
from catraca.events import (
    CandidateFound,
    ConfirmationExpired,
    DriverAccepted,
    DriverRejected,
    DriverTimeout,
    MatchingRetry,
    MatchingTimeout,
    NoDriversAvailable,
    OfferSent,
    RideAccepted,
    RideArriving,
    RideCancelled,
    RideCompleted,
    RideFlagged,
    RideMatched,
    RidePaid,
    RidePaymentExpired,
    RideReassigning,
    RideRequested,
    RideStarted,
)
from catraca.platform.bus import Message, batch_handlers
from catraca.platform.database import Db
from catraca.platform.event import Event

# The events of each queue. Events without a fact (`fact_of`) are only counted.
EVENTS: Mapping[str, tuple[type[Event], ...]] = {
    "analytics_events_queue": (
        RideRequested,
        ConfirmationExpired,
        RideAccepted,
        RideMatched,
        RideArriving,
        RideStarted,
        RideCompleted,
        RideCancelled,
        RideReassigning,
        RideFlagged,
        RidePaid,
        RidePaymentExpired,
    ),
    "analytics_matching_queue": (
        CandidateFound,
        OfferSent,
        DriverAccepted,
        DriverRejected,
        DriverTimeout,
        MatchingRetry,
        MatchingTimeout,
        NoDriversAvailable,
    ),
}


def _prepare(event: Event, message: Message) -> CountedEvent:
    return CountedEvent(message.key, fact_of(event))


async def _write(db: Db, events: Sequence[CountedEvent], rule: AlertRule) -> None:
    await service.count_events(db, events, rule=rule)


HANDLERS = tuple(
    batch_handlers(queue, kinds, prepare=_prepare, write=_write) for queue, kinds in EVENTS.items()
)
