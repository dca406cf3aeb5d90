"""Attempts to accept a ride, and their outcomes."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides.errors import (
    OfferExpired,
    OfferNotReceived,
    RideAcceptedByYou,
    RideAlreadyAccepted,
    RideCannotBeAccepted,
)
from catraca.domains.rides.model import OfferId, RideId, Status
from catraca.platform.errors import IdempotencyKeyReused, Refusal

Failure = Literal[
    "idempotency_key_reused",
    "offer_not_received",
    "offer_expired",
    "accepted_by_you",
    "ride_already_accepted",
    "ride_cannot_be_accepted",
]
Outcome = Failure | Literal["accepted", "open", "again"]
"""`open`: may win, but its ride was not locked. `again`: recorded by another transaction meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A driver's request to accept a ride."""

    id: UUID
    ride_id: RideId
    driver_id: UserId
    actor_id: UUID
    idempotency_key: str | None
    request_id: str | None = None
    user_agent: str | None = None
    ip_address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TripDetails:
    """What the driver needs to fetch the passenger."""

    passenger_id: UserId
    pickup_lat: float
    pickup_lon: float
    dropoff_lat: float | None
    dropoff_lon: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRide:
    """The winner's answer. A repeated attempt gets the same values."""

    ride_id: RideId
    driver_id: UserId
    accepted_at: datetime
    # None in a repeat after the driver gave the ride up, or after its end.
    details: TripDetails | None


@dataclass(frozen=True, slots=True)
class LostOffer:
    id: OfferId
    driver_id: UserId
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Win:
    """The winner's offer, and the offers that were canceled with it."""

    offer_id: OfferId
    round: int
    attempt: int
    lost: tuple[LostOffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResult:
    attempt_id: UUID
    outcome: Outcome
    # The ride's status when the attempt was decided first.
    ride_status: Status
    # True if the outcome was recorded by an earlier attempt.
    repeated: bool
    accepted: AcceptedRide | None
    # Set if this attempt won the ride now.
    win: Win | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAttempt:
    """An attempt as operators see it."""

    id: UUID
    driver_id: UserId
    offer_id: OfferId | None
    idempotency_key: str
    status: Literal["SUCCESS", "FAILED"]
    failure_reason: Failure | None
    ride_status: Status
    attempt_at: datetime
    actor_id: UUID
    request_id: str | None
    user_agent: str | None
    ip_address: str | None


def refusal_for(failure: Failure, *, ride_status: Status) -> Refusal:
    match failure:
        case "idempotency_key_reused":
            return IdempotencyKeyReused()
        case "offer_not_received":
            return OfferNotReceived()
        case "offer_expired":
            return OfferExpired()
        case "accepted_by_you":
            return RideAcceptedByYou(accepted_by_you=True)
        case "ride_already_accepted":
            return RideAlreadyAccepted(accepted_by_you=False)
        case "ride_cannot_be_accepted":
            return RideCannotBeAccepted(ride_status=ride_status)
