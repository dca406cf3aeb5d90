"""Communities: their fences, what their rides cost, and which of them a place is in."""

from catraca.domains.communities.errors import FenceInvalid, NeighbourIsItself, NeighbourUnknown
from catraca.domains.communities.model.community import (
    Community,
    CommunityId,
    Prices,
    Rules,
    Tier,
    Whose,
    circles_of,
)
from catraca.domains.communities.model.edges import (
    EdgeRules,
    Sighting,
    Whereabouts,
    settle,
    settle_first,
)
from catraca.domains.communities.model.fences import Fence, FenceIndex
from catraca.domains.communities.service import (
    Fences,
    Imported,
    Wanted,
    all_communities,
    change_community,
    check_fence,
    create_community,
    import_communities,
)
from catraca.domains.communities.store import INVARIANTS, read_community, read_version

__all__ = [
    "INVARIANTS",
    "Community",
    "CommunityId",
    "EdgeRules",
    "Fence",
    "FenceIndex",
    "FenceInvalid",
    "Fences",
    "Imported",
    "NeighbourIsItself",
    "NeighbourUnknown",
    "Prices",
    "Rules",
    "Sighting",
    "Tier",
    "Wanted",
    "Whereabouts",
    "Whose",
    "all_communities",
    "change_community",
    "check_fence",
    "circles_of",
    "create_community",
    "import_communities",
    "read_community",
    "read_version",
    "settle",
    "settle_first",
]
