"""What a community is, beside its fence."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NewType
from uuid import UUID

import msgspec

CommunityId = NewType("CommunityId", UUID)
# How far the drivers of a ride may come from: the community's own, its neighbours' as well, or anybody.
Tier = Literal["home", "neighbours", "open"]
Fallback = Literal["neighbours", "open"]
MOST_NEIGHBOURS: Final = 50


class Prices(msgspec.Struct, frozen=True):
    """What a community charges, in hundredths of the currency that all share."""

    base_cents: int
    per_km_cents: int
    per_minute_cents: int
    minimum_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What an operator says of a community beside its fence."""

    name: str
    tariff: Prices | None = None
    # For rides that its own drivers could not take; None: the same.
    outside_tariff: Prices | None = None
    # Whom a passenger is asked about when nobody is there; nothing: nobody, the ride waits for its own.
    fallback: tuple[Fallback, ...] = ("open",)
    neighbour_ids: tuple[CommunityId, ...] = ()
    # None: as the setting says.
    confirmation_ttl_seconds: int | None = None
    retired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Community:
    id: CommunityId
    version: int
    changed_at: datetime
    rules: Rules

    def prices_for(self, tier: Tier) -> Prices | None:
        """What a ride costs whose drivers may come from so far; None: as everywhere."""
        outside = self.rules.outside_tariff if tier != "home" else None
        return outside or self.rules.tariff


# Whose drivers: of these communities, or anybody.
Whose = frozenset[CommunityId] | None


def circles_of(community: Community, tier: Tier) -> Sequence[Whose]:
    """Whose drivers are asked, one circle after another, each with those before it: its own come first."""
    home: Whose = frozenset({community.id})
    around = home | set(community.rules.neighbour_ids)
    circles: list[Whose] = [home]
    if tier != "home" and "neighbours" in community.rules.fallback and around != home:
        circles.append(around)
    if tier == "open":
        circles.append(None)
    return circles
