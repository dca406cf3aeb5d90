"""Rides, their offers, and the states a ride can be in."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal, NewType, TypedDict
from uuid import UUID

from catraca.domains.communities import CommunityId, Prices, Tier
from catraca.domains.fares import Tariff
from catraca.domains.people import UserId
from catraca.domains.rides.errors import RideMoveNotAllowed

RideId = NewType("RideId", UUID)
OfferId = NewType("OfferId", UUID)
RideType = Literal["normal", "comunidade"]
Status = Literal[
    "REQUESTED",
    "SEARCHING",
    "OFFERED",
    "ACCEPTED",
    "ARRIVING",
    "STARTED",
    "COMPLETED",
    "PAID",
    "CANCELED",
    "EXPIRED",
    "PAYMENT_EXPIRED",
]
Response = Literal["ACCEPTED", "REJECTED", "EXPIRED", "CANCELED"]
Actor = Literal["passenger", "driver", "operator", "system"]

# The schema has the same table in the constraint `only_allowed_moves`.
MOVES: Final[Mapping[Status, frozenset[Status]]] = {
    "REQUESTED": frozenset({"SEARCHING", "OFFERED", "CANCELED", "EXPIRED"}),
    "SEARCHING": frozenset({"OFFERED", "CANCELED"}),
    "OFFERED": frozenset({"SEARCHING", "ACCEPTED", "CANCELED"}),
    "ACCEPTED": frozenset({"ARRIVING", "SEARCHING", "CANCELED"}),
    "ARRIVING": frozenset({"STARTED", "SEARCHING", "CANCELED"}),
    # CANCELED: only by an operator (`only_operators_cancel_started_rides`).
    "STARTED": frozenset({"COMPLETED", "CANCELED"}),
    "COMPLETED": frozenset({"PAID", "PAYMENT_EXPIRED"}),
    "PAID": frozenset(),
    "CANCELED": frozenset(),
    "EXPIRED": frozenset(),
    "PAYMENT_EXPIRED": frozenset({"PAID"}),
}
OPEN: Final[frozenset[Status]] = frozenset({"REQUESTED", "SEARCHING", "OFFERED"})
DRIVEN: Final[frozenset[Status]] = frozenset({"ACCEPTED", "ARRIVING", "STARTED"})
# About a hundred metres.
BLURRED_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TripLimits:
    """What a plausible trip does not exceed."""

    # A ride that takes longer is flagged, and the time beyond it is not charged.
    longest: timedelta
    top_speed_kmh: int

    @property
    def longest_seconds(self) -> int:
        return round(self.longest.total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class CancellationRule:
    """The pause before a passenger's next request, after `free` cancellations by the passenger in `window`.

    It is `pause` after the first further cancellation, and doubles with each one, up to `longest`.
    """

    free: int
    pause: timedelta
    window: timedelta = timedelta(hours=1)
    longest: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class RideTerms:
    """Prices and time limits of rides, from the settings."""

    tariff: Tariff
    search_timeout: timedelta
    offer_ttl: timedelta
    limits: TripLimits
    cancellations: CancellationRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Ride:
    id: RideId
    passenger_id: UserId
    type: RideType = "normal"
    community_id: CommunityId | None = None
    community_version: int | None = None
    # The farthest drivers that may be offered a community's ride.
    tier: Tier | None = None
    # The community's prices; None: the general tariff.
    prices: Prices | None = None
    # The price the passenger's app expected.
    asked_price_cents: int | None = None
    confirmation_id: UUID | None = None
    status: Status
    round: int
    version: int
    accepted_driver_id: UserId | None
    accepted_at: datetime | None
    pickup_lat: float
    pickup_lon: float
    pickup_address: str | None
    dropoff_lat: float | None
    dropoff_lon: float | None
    dropoff_address: str | None
    distance_meters: int | None
    duration_seconds: int | None
    estimated_fare_cents: int | None
    final_fare_cents: int | None
    # Of a ride without a destination: the driver's report, and the part of it that was charged.
    reported_meters: int | None = None
    charged_meters: int | None = None
    created_at: datetime
    updated_at: datetime
    deadline_at: datetime
    arrived_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    canceled_at: datetime | None
    canceled_by: Actor | None
    cancel_reason: str | None

    @property
    def is_open(self) -> bool:
        """True while the ride has no driver and can still get one."""
        return self.status in OPEN

    @property
    def is_driven(self) -> bool:
        """True from the acceptance until the ride is completed or canceled."""
        return self.status in DRIVEN

    @property
    def has_run_out(self) -> bool:
        """True if the search ended without a driver."""
        return self.status == "EXPIRED" or self.canceled_by == "system"

    @property
    def ended_at(self) -> datetime | None:
        if self.status == "EXPIRED":
            return self.updated_at
        return self.completed_at or self.canceled_at

    def is_party(self, user_id: UUID) -> bool:
        """True for the passenger and the accepted driver."""
        return user_id in (self.passenger_id, self.accepted_driver_id)

    def check_move(self, to: Status) -> None:
        if to not in MOVES[self.status]:
            raise RideMoveNotAllowed(ride_status=self.status)

    def blurred(self) -> "Ride":
        """Return the ride with rounded places and without addresses, for drivers who are not on it."""
        return replace(
            self,
            pickup_lat=round(self.pickup_lat, BLURRED_DIGITS),
            pickup_lon=round(self.pickup_lon, BLURRED_DIGITS),
            pickup_address=None,
            dropoff_lat=None if self.dropoff_lat is None else round(self.dropoff_lat, BLURRED_DIGITS),
            dropoff_lon=None if self.dropoff_lon is None else round(self.dropoff_lon, BLURRED_DIGITS),
            dropoff_address=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """`response` is None while the offer is live."""

    id: OfferId
    ride_id: RideId
    driver_id: UserId
    round: int
    attempt: int
    offered_at: datetime
    expires_at: datetime
    responded_at: datetime | None
    response: Response | None
    reason: str | None


class Parties(TypedDict):
    """Fields that events of a ride with a driver share."""

    ride_id: RideId
    round: int
    rider_id: UserId
    driver_id: UserId


def parties(ride: Ride) -> Parties:
    assert ride.accepted_driver_id is not None, "the ride has a driver"
    return {
        "ride_id": ride.id,
        "round": ride.round,
        "rider_id": ride.passenger_id,
        "driver_id": ride.accepted_driver_id,
    }
