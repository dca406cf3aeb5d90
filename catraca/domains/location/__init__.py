"""Location: which drivers are at work, where they are, and who holds them."""

from catraca.domains.location.errors import DriverNotOnline
from catraca.domains.location.model import (
    DriverId,
    Found,
    Ping,
    PingRules,
    ShownPosition,
    Source,
    cell_of,
    cells_around,
    decode_positions,
    encode_positions,
)
from catraca.domains.location.schemas import PINGS_AT_ONCE, PingIn, PingsOut, StatusIn, StatusOut
from catraca.domains.location.service.keeping import Rhythm
from catraca.domains.location.service.locks import let_go, lock_driver, take_driver, unlock_driver
from catraca.domains.location.service.pings import PingDesk
from catraca.domains.location.service.presence import go_offline, go_online, personal_data
from catraca.domains.location.service.searching import (
    Near,
    Search,
    WhyNot,
    find_nearby,
    last_place,
    look_around,
)
from catraca.domains.location.service.tracking import Tracking
from catraca.domains.location.store.communities import INVARIANTS as COMMUNITY_INVARIANTS
from catraca.domains.location.store.presence import INVARIANTS as PRESENCE_INVARIANTS
from catraca.domains.location.store.presence import online_among
from catraca.domains.location.store.shares import INVARIANTS as SHARE_INVARIANTS

INVARIANTS = (*PRESENCE_INVARIANTS, *COMMUNITY_INVARIANTS, *SHARE_INVARIANTS)

__all__ = [
    "INVARIANTS",
    "PINGS_AT_ONCE",
    "DriverId",
    "DriverNotOnline",
    "Found",
    "Near",
    "Ping",
    "PingDesk",
    "PingIn",
    "PingRules",
    "PingsOut",
    "Rhythm",
    "Search",
    "ShownPosition",
    "Source",
    "StatusIn",
    "StatusOut",
    "Tracking",
    "WhyNot",
    "cell_of",
    "cells_around",
    "decode_positions",
    "encode_positions",
    "find_nearby",
    "go_offline",
    "go_online",
    "last_place",
    "let_go",
    "lock_driver",
    "look_around",
    "online_among",
    "personal_data",
    "take_driver",
    "unlock_driver",
]
