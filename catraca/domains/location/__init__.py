"""Location: online drivers, their positions, and the callers that may see them."""

from catraca.domains.location.fence_crossings.store import INVARIANTS as FENCE_CROSSING_INVARIANTS
from catraca.domains.location.locks.service import release_drivers, reserve_drivers
from catraca.domains.location.model import Source
from catraca.domains.location.nearby.model import NearbyDriver, Search
from catraca.domains.location.nearby.service import find_nearby, scan_nearby
from catraca.domains.location.positions.model import ShownPosition, decode_positions
from catraca.domains.location.positions.service import last_places
from catraca.domains.location.presence.service import is_online
from catraca.domains.location.presence.store import INVARIANTS as PRESENCE_INVARIANTS
from catraca.domains.location.service import personal_data
from catraca.domains.location.sharing.store import INVARIANTS as SHARE_INVARIANTS

INVARIANTS = (*PRESENCE_INVARIANTS, *FENCE_CROSSING_INVARIANTS, *SHARE_INVARIANTS)

__all__ = [
    "INVARIANTS",
    "NearbyDriver",
    "Search",
    "ShownPosition",
    "Source",
    "decode_positions",
    "find_nearby",
    "is_online",
    "last_places",
    "personal_data",
    "release_drivers",
    "reserve_drivers",
    "scan_nearby",
]
