"""A ride requested in a community, its confirmation, and the confirmation's token, as values."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType
from uuid import UUID

import msgspec

from catraca.domains.communities import CommunityId, Tier
from catraca.domains.people import UserId
from catraca.domains.rides import Ride, RideId, RideRequest
from catraca.platform.errors import Refusal
from catraca.platform.geo import Place

ConfirmationId = NewType("ConfirmationId", UUID)
Kind = Literal["normal", "comunidade"]


class CommunityRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A passenger's request. It is stored with the confirmation, which then creates this ride."""

    type: Kind
    lat: float
    lng: float
    origin: str | None = None
    destination: str | None = None
    destination_lat: float | None = None
    destination_lng: float | None = None
    price_cents: int | None = None

    @property
    def place(self) -> Place:
        return Place(self.lat, self.lng)

    def to_ride_request(self) -> RideRequest:
        dropoff = None
        if self.destination_lat is not None and self.destination_lng is not None:
            dropoff = Place(self.destination_lat, self.destination_lng)
        return RideRequest(
            pickup=self.place,
            pickup_address=self.origin,
            dropoff=dropoff,
            dropoff_address=self.destination,
            asked_price_cents=self.price_cents,
        )

    def digest(self) -> bytes:
        """Equal for equal requests."""
        return hashlib.sha256(write_request(self).encode()).digest()


def write_request(request: CommunityRequest) -> str:
    return msgspec.json.encode(request).decode()


def read_request(text: str | bytes) -> CommunityRequest:
    return msgspec.json.decode(text, type=CommunityRequest)


class ConfirmationTokens:
    """Derives a confirmation's token from its id, so that a repeated request gets the same token."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"ride confirmations\0" + secret.encode()).digest()

    def token_of(self, confirmation_id: UUID) -> str:
        """64 hexadecimal digits; only their hash is stored."""
        return hmac.digest(self._key, confirmation_id.bytes, "sha256").hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A passenger is asked to accept drivers from elsewhere for one request."""

    id: ConfirmationId
    passenger_id: UserId
    asked: CommunityRequest
    community_id: CommunityId
    community_version: int
    tier: Tier
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    ride_id: RideId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is different with drivers from elsewhere."""

    tier: Tier
    # Of the nearest available driver; None if there is none now.
    distance_meters: int | None
    wait_seconds: int | None
    fare_cents: int
    # The fare with the community's own drivers.
    home_fare_cents: int


@dataclass(frozen=True, slots=True)
class RideCreated:
    """A new ride; `confirmed`: outside the fence, confirmed by the passenger."""

    ride: Ride
    confirmed: bool = False
    # The community has an available driver after all.
    at_home: bool = False


@dataclass(frozen=True, slots=True)
class RideCreatedBefore:
    """The ride of a confirmation that was used before."""

    ride: Ride


@dataclass(frozen=True, slots=True)
class ConfirmationNeeded:
    confirmation: Confirmation
    token: str
    changes: Changes


@dataclass(frozen=True, slots=True)
class RequestRefused:
    refusal: Refusal


Answer = RideCreated | RideCreatedBefore | ConfirmationNeeded | RequestRefused
