"""The published language: what domains tell each other, as frozen types, and the queues that carry it."""

from catraca.events.analytics import MatchesFailing
from catraca.events.location import DriverIdle, DriverOffline, DriverOnline, DriverUpdated
from catraca.events.matching import (
    CandidateFound,
    DriverAccepted,
    DriverRejected,
    DriverTimeout,
    MatchingRetry,
    MatchingTimeout,
    NoDriversAvailable,
    OfferCanceled,
    OfferSent,
)
from catraca.events.notifications import PushDue
from catraca.events.rides import (
    RideAccepted,
    RideArriving,
    RideCancelled,
    RideCompleted,
    RideMatched,
    RideReassigning,
    RideRequested,
    RideStarted,
)
from catraca.events.topology import SIGN_UP_EXCHANGE, SIGN_UP_QUEUE, TOPOLOGY, SignUpFlow, make_topology
from catraca.events.users import UserCreated, UserRejected
from catraca.platform.event import Event

# Every event that is published; the catalogue and the start-up checks go by it.
EVENTS: tuple[type[Event], ...] = (
    RideRequested,
    RideAccepted,
    RideMatched,
    RideArriving,
    RideStarted,
    RideCompleted,
    RideCancelled,
    RideReassigning,
    CandidateFound,
    OfferSent,
    DriverAccepted,
    DriverRejected,
    DriverTimeout,
    OfferCanceled,
    MatchingRetry,
    MatchingTimeout,
    NoDriversAvailable,
    DriverOnline,
    DriverOffline,
    DriverIdle,
    DriverUpdated,
    UserCreated,
    UserRejected,
    MatchesFailing,
    PushDue,
)

__all__ = [
    "EVENTS",
    "SIGN_UP_EXCHANGE",
    "SIGN_UP_QUEUE",
    "TOPOLOGY",
    "CandidateFound",
    "DriverAccepted",
    "DriverIdle",
    "DriverOffline",
    "DriverOnline",
    "DriverRejected",
    "DriverTimeout",
    "DriverUpdated",
    "MatchesFailing",
    "MatchingRetry",
    "MatchingTimeout",
    "NoDriversAvailable",
    "OfferCanceled",
    "OfferSent",
    "PushDue",
    "RideAccepted",
    "RideArriving",
    "RideCancelled",
    "RideCompleted",
    "RideMatched",
    "RideReassigning",
    "RideRequested",
    "RideStarted",
    "SignUpFlow",
    "UserCreated",
    "UserRejected",
    "make_topology",
]
