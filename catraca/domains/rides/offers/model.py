"""The result of making offers."""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from catraca.domains.rides.model import Offer, RideId

SkipReason = Literal["not_a_driver", "own_ride", "gave_it_up", "busy"]
RejectReason = Literal["too_far", "busy", "unsafe", "other"]


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
