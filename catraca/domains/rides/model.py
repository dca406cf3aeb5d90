"""Rides as values: their states, who may move them, and what an attempt to accept one came to."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, NewType, TypedDict
from uuid import UUID

from catraca.domains.communities import CommunityId, Prices, Tier
from catraca.domains.people import UserId
from catraca.domains.rides.errors import (
    CancelReasonInvalid,
    OfferExpired,
    OfferNotReceived,
    RideAlreadyAccepted,
    RideCannotBeAccepted,
    RideMoveNotAllowed,
)
from catraca.platform.errors import IdempotencyKeyReused, Refusal
from catraca.platform.geo import Place

RideId = NewType("RideId", UUID)
OfferId = NewType("OfferId", UUID)
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

# The schema holds the same table, as `only_allowed_moves`.
MOVES: Final[Mapping[Status, frozenset[Status]]] = {
    "REQUESTED": frozenset({"SEARCHING", "OFFERED", "CANCELED", "EXPIRED"}),
    "SEARCHING": frozenset({"OFFERED", "CANCELED"}),
    "OFFERED": frozenset({"SEARCHING", "ACCEPTED", "CANCELED"}),
    "ACCEPTED": frozenset({"ARRIVING", "SEARCHING", "CANCELED"}),
    "ARRIVING": frozenset({"STARTED", "SEARCHING", "CANCELED"}),
    "STARTED": frozenset({"COMPLETED"}),
    "COMPLETED": frozenset({"PAID", "PAYMENT_EXPIRED"}),
    "PAID": frozenset(),
    "CANCELED": frozenset(),
    "EXPIRED": frozenset(),
    "PAYMENT_EXPIRED": frozenset(),
}
OPEN: Final[frozenset[Status]] = frozenset({"REQUESTED", "SEARCHING", "OFFERED"})
DRIVEN: Final[frozenset[Status]] = frozenset({"ACCEPTED", "ARRIVING", "STARTED"})
# About a hundred metres.
ROUGH_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RideRequest:
    """What a passenger asks for."""

    pickup: Place
    pickup_address: str | None = None
    dropoff: Place | None = None
    dropoff_address: str | None = None


Kind = Literal["normal", "comunidade"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Belonging:
    """To which community a ride belongs, as that was then, and how far its drivers may come from."""

    community_id: CommunityId
    community_version: int
    tier: Tier
    prices: Prices | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ride:
    id: RideId
    passenger_id: UserId
    type: Kind = "normal"
    community_id: CommunityId | None = None
    community_version: int | None = None
    tier: Tier | None = None
    # By what it is charged, where that is not the general tariff.
    prices: Prices | None = None
    # What the passenger's app thought it would cost.
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
        """Whether a driver is still looked for."""
        return self.status in OPEN

    @property
    def is_driven(self) -> bool:
        return self.status in DRIVEN

    @property
    def has_run_out(self) -> bool:
        """Whether it ended because nobody came for it in time."""
        return self.status == "EXPIRED" or self.canceled_by == "system"

    def demand_move(self, to: Status) -> None:
        if to not in MOVES[self.status]:
            raise RideMoveNotAllowed(ride_status=self.status)

    def without_doors(self) -> "Ride":
        """As a driver sees it who has not accepted, or is done with it: the neighbourhood, not the door."""
        return replace(
            self,
            pickup_lat=round(self.pickup_lat, ROUGH_DIGITS),
            pickup_lon=round(self.pickup_lon, ROUGH_DIGITS),
            pickup_address=None,
            dropoff_lat=None if self.dropoff_lat is None else round(self.dropoff_lat, ROUGH_DIGITS),
            dropoff_lon=None if self.dropoff_lon is None else round(self.dropoff_lon, ROUGH_DIGITS),
            dropoff_address=None,
        )


class RideChange(TypedDict, total=False):
    """What a move sets beside the status."""

    round: int
    accepted_driver_id: UserId | None
    accepted_at: datetime | None
    arrived_at: datetime | None
    final_fare_cents: int
    canceled_by: Actor
    cancel_reason: str
    cancel_note: str | None


# The moments a move can set, by the database's clock.
Stamp = Literal["arrived_at", "started_at", "completed_at", "canceled_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One row of a ride's history."""

    seq: int
    from_status: Status | None
    to_status: Status
    round: int
    at: datetime
    actor: Actor
    actor_id: UUID | None
    reason: str | None
    news: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
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


# What keeps a driver from being offered a ride.
Skipped = Literal["not_a_driver", "own_ride", "gave_it_up", "busy"]


@dataclass(frozen=True, slots=True)
class MadeOffers:
    offers: list[Offer]
    skipped: dict[UUID, Skipped]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One driver's wish to have one ride, as it came in."""

    id: UUID
    ride_id: RideId
    driver_id: UserId
    actor_id: UUID
    idempotency_key: str | None
    request_id: str | None = None
    user_agent: str | None = None
    ip_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The winner's answer. All of it is as it was then: a repeat gets the same."""

    ride_id: RideId
    driver_id: UserId
    passenger_id: UserId
    accepted_at: datetime
    pickup_lat: float
    pickup_lon: float
    dropoff_lat: float | None
    dropoff_lon: float | None


Failure = Literal[
    "idempotency_key_reused",
    "offer_not_received",
    "offer_expired",
    "accepted_by_you",
    "ride_already_accepted",
    "ride_cannot_be_accepted",
]


def refusal_for(failure: Failure, *, ride_status: Status) -> Refusal:
    """What a driver is told who did not get the ride."""
    match failure:
        case "idempotency_key_reused":
            return IdempotencyKeyReused()
        case "offer_not_received":
            return OfferNotReceived()
        case "offer_expired":
            return OfferExpired()
        case "accepted_by_you" | "ride_already_accepted":
            return RideAlreadyAccepted(accepted_by_you=failure == "accepted_by_you")
        case "ride_cannot_be_accepted":
            return RideCannotBeAccepted(ride_status=ride_status)


# Why rides are canceled, by who may say so.
CancelReason = Literal[
    "changed_plans",
    "waited_too_long",
    "wrong_place",
    "driver_asked",
    "vehicle_problem",
    "too_far",
    "unsafe",
    "passenger_no_show",
    "operator_decision",
    "other",
]
CANCEL_REASONS: Final[Mapping[Actor, tuple[CancelReason, ...]]] = {
    "passenger": ("changed_plans", "waited_too_long", "wrong_place", "driver_asked", "unsafe", "other"),
    "driver": ("vehicle_problem", "too_far", "unsafe", "passenger_no_show", "other"),
    "operator": ("operator_decision", "unsafe", "other"),
    "system": (),
}
RejectReason = Literal["too_far", "busy", "unsafe", "other"]


def cancel_leads_to(ride: Ride, *, by: Actor, reason: CancelReason) -> Status:
    """Where a cancellation takes the ride: a driver's sends it back to the search.

    Unless nobody was there to be driven: another driver would wait for that passenger in vain.
    """
    if reason not in CANCEL_REASONS[by]:
        raise CancelReasonInvalid(reasons=list(CANCEL_REASONS[by]))
    if reason == "passenger_no_show" and ride.status != "ARRIVING":
        raise RideMoveNotAllowed(ride_status=ride.status)
    to: Status = "SEARCHING" if by == "driver" and reason != "passenger_no_show" else "CANCELED"
    ride.demand_move(to)
    return to
