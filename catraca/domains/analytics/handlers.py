"""What becomes figures: every event of rides and of searches is counted, some with their place and time.

Messages are written in batches, in each of which every hour and cell is one row to change.
"""

from collections.abc import Mapping, Sequence

from catraca.domains.analytics import service
from catraca.domains.analytics.model import AlertRule, Happening, fact_of
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
    RideMatched,
    RideReassigning,
    RideRequested,
    RideStarted,
)
from catraca.platform.bus import Message, batch_handlers
from catraca.platform.database import Db
from catraca.platform.event import Event

# Which events come by which queue. Those of which `fact_of` makes nothing are only counted.
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


def _prepare(event: Event, message: Message) -> Happening:
    return Happening(message.key, fact_of(event))


async def _write(db: Db, happenings: Sequence[Happening], rule: AlertRule) -> None:
    await service.count_happenings(db, happenings, rule=rule)


HANDLERS = tuple(
    batch_handlers(queue, kinds, prepare=_prepare, write=_write) for queue, kinds in EVENTS.items()
)
