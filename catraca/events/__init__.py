"""The published language: what domains tell each other, as frozen types, and the queues that carry it."""

from catraca.events.topology import TOPOLOGY
from catraca.events.users import UserCreated
from catraca.platform.event import Event

# Every event that is published; the catalogue and the start-up checks go by it.
EVENTS: tuple[type[Event], ...] = (UserCreated,)

__all__ = ["EVENTS", "TOPOLOGY", "UserCreated"]
