"""Communities: their fences, tariffs and rules, and which communities contain a place."""

from catraca.domains.communities.model import (
    Community,
    CommunityFilter,
    CommunityId,
    Fence,
    FenceIndex,
    Prices,
    Rules,
    Tier,
    search_circles,
)
from catraca.domains.communities.service import (
    CommunityDraft,
    Fences,
    import_communities,
    read_community_version,
)
from catraca.domains.communities.store import INVARIANTS

__all__ = [
    "INVARIANTS",
    "Community",
    "CommunityDraft",
    "CommunityFilter",
    "CommunityId",
    "Fence",
    "FenceIndex",
    "Fences",
    "Prices",
    "Rules",
    "Tier",
    "import_communities",
    "read_community_version",
    "search_circles",
]
