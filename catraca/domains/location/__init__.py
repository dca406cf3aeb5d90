"""Location: which drivers are at work, where they are, and who holds them."""

from catraca.domains.location.model import Found, Ping, PingRules
from catraca.domains.location.service.keeping import Rhythm
from catraca.domains.location.service.locks import lock_driver, unlock_driver
from catraca.domains.location.service.pings import PingDesk
from catraca.domains.location.service.presence import personal_data
from catraca.domains.location.service.searching import Near, Search, find_nearby
from catraca.domains.location.service.tracking import Tracking
from catraca.domains.location.store.presence import INVARIANTS

__all__ = [
    "INVARIANTS",
    "Found",
    "Near",
    "Ping",
    "PingDesk",
    "PingRules",
    "Rhythm",
    "Search",
    "Tracking",
    "find_nearby",
    "lock_driver",
    "personal_data",
    "unlock_driver",
]
