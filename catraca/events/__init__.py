"""The published language: what domains tell each other, as frozen types, and the queues that carry it."""

from catraca.events.location import DriverIdle, DriverOffline, DriverOnline, DriverUpdated
from catraca.events.matching import (
    CandidateFound,
    DriverAccepted,
    DriverRejected,
    DriverTimeout,
    OfferCanceled,
)
from catraca.events.rides import (
    RideAccepted,
    RideArriving,
    RideCancelled,
    RideCompleted,
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
    RideArriving,
    RideStarted,
    RideCompleted,
    RideCancelled,
    RideReassigning,
    CandidateFound,
    DriverAccepted,
    DriverRejected,
    DriverTimeout,
    OfferCanceled,
    DriverOnline,
    DriverOffline,
    DriverIdle,
    DriverUpdated,
    UserCreated,
    UserRejected,
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
    "OfferCanceled",
    "RideAccepted",
    "RideArriving",
    "RideCancelled",
    "RideCompleted",
    "RideReassigning",
    "RideRequested",
    "RideStarted",
    "SignUpFlow",
    "UserCreated",
    "UserRejected",
    "make_topology",
]
