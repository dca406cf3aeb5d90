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
from catraca.platform.bus import Message
from catraca.platform.bus.batch_worker import BatchHandlers
from catraca.platform.bus.handlers import EventReader
from catraca.platform.database import Db
from catraca.platform.event import Event, key_of

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
reader = EventReader(kind for kinds in EVENTS.values() for kind in kinds)


def make_handlers(rule: AlertRule) -> tuple[BatchHandlers[Happening], ...]:
    """One for each queue; `rule` says when somebody is to be told."""

    async def write(db: Db, happenings: Sequence[Happening]) -> Mapping[int, Exception]:
        await service.count_happenings(db, happenings, rule=rule)
        return {}

    return tuple(
        BatchHandlers(queue=queue, keys={key_of(kind) for kind in kinds}, prepare=_prepare, write=write)
        for queue, kinds in EVENTS.items()
    )


async def _prepare(message: Message) -> Happening:
    return Happening(message.key, fact_of(reader.read(message)))
