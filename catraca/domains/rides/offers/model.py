"""Offers to make, and the result of making them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides.model import Offer, Ride, RideId
from catraca.domains.rides.search.model import LockedRide

SkipReason = Literal["not_a_driver", "own_ride", "gave_it_up", "busy"]
RejectReason = Literal["too_far", "busy", "unsafe", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferPlan:
    """A locked open ride, and the suitable drivers to offer it to."""

    locked: LockedRide
    driver_ids: Sequence[UserId]
    # The drivers' distances to the pickup, in meters.
    distances: Mapping[UUID, float] = field(default_factory=dict[UUID, float])
    # The request, message or timer that caused it.
    trace: str | None = None

    @property
    def ride(self) -> Ride:
        return self.locked.ride


@dataclass(frozen=True, slots=True)
class MadeOffers:
    offers: list[Offer]
    # Drivers that got no offer.
    skipped: dict[UUID, SkipReason]


@dataclass(frozen=True, slots=True)
class BusyDriver:
    """The ride that a driver is driving, or has a live offer of."""

    ride_id: RideId
    driving: bool
