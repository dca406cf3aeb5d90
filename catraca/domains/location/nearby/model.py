"""A search for drivers near a place, as values."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import msgspec

from catraca.domains.communities import CommunityFilter
from catraca.domains.location.model import DriverId, Ping
from catraca.platform.geo import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    place: Place
    radius_meters: float
    limit: int
    # Count unavailable drivers as well.
    include_unavailable: bool = False
    # Only drivers inside one of these communities, or based in one; None: all drivers.
    community_ids: CommunityFilter = None
    # Drivers with an older position are unavailable.
    fresh: timedelta = timedelta(seconds=60)


# Why an online driver is unavailable: has a ride, has another ride's offer, is not allowed to drive, sent no
# ping lately, or is no member of the communities searched.
Unavailable = Literal["driving", "held", "may_not_drive", "stale", "outside_fence"]


class DriverPosition(msgspec.Struct, frozen=True, gc=False):
    driver_id: DriverId
    ping: Ping
    distance_meters: float


class NearbyDriver(DriverPosition, frozen=True, gc=False):
    unavailable: Unavailable | None = None

    @property
    def is_available(self) -> bool:
        return self.unavailable is None
