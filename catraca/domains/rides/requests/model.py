"""The request for a ride."""

from dataclasses import dataclass
from uuid import UUID

from catraca.domains.communities import Community, Prices, Tier
from catraca.platform.geo import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class RideRequest:
    pickup: Place
    pickup_address: str | None = None
    dropoff: Place | None = None
    dropoff_address: str | None = None
    # The price the passenger's app expects.
    asked_price_cents: int | None = None
    # The community of a community's ride, as it is now, how far its drivers may come from, and its prices.
    community: Community | None = None
    tier: Tier | None = None
    prices: Prices | None = None
    # The confirmation by which the passenger accepted drivers from elsewhere.
    confirmation_id: UUID | None = None
