"""Location: which drivers are at work, where they are, and who holds them."""

from catraca.domains.location.model import Found, Ping, PingRules, Source, cell_of, cells_around
from catraca.domains.location.service.keeping import Rhythm
from catraca.domains.location.service.locks import let_go, lock_driver, take_driver, unlock_driver
from catraca.domains.location.service.pings import PingDesk
from catraca.domains.location.service.presence import personal_data
from catraca.domains.location.service.searching import (
    Near,
    Search,
    WhyNot,
    find_nearby,
    last_place,
    look_around,
)
from catraca.domains.location.service.tracking import Tracking
from catraca.domains.location.store.presence import INVARIANTS, online_among

__all__ = [
    "INVARIANTS",
    "Found",
    "Near",
    "Ping",
    "PingDesk",
    "PingRules",
    "Rhythm",
    "Search",
    "Source",
    "Tracking",
    "WhyNot",
    "cell_of",
    "cells_around",
    "find_nearby",
    "last_place",
    "let_go",
    "lock_driver",
    "look_around",
    "online_among",
    "personal_data",
    "take_driver",
    "unlock_driver",
]
