"""The published language: what domains tell each other, as frozen types, and the queues that carry it."""

from catraca.events.topology import SIGN_UP_EXCHANGE, SIGN_UP_QUEUE, TOPOLOGY, SignUpFlow, make_topology
from catraca.events.users import UserCreated, UserRejected
from catraca.platform.event import Event

# Every event that is published; the catalogue and the start-up checks go by it.
EVENTS: tuple[type[Event], ...] = (UserCreated, UserRejected)

__all__ = [
    "EVENTS",
    "SIGN_UP_EXCHANGE",
    "SIGN_UP_QUEUE",
    "TOPOLOGY",
    "SignUpFlow",
    "UserCreated",
    "UserRejected",
    "make_topology",
]
