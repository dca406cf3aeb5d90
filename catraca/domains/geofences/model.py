"""A ride asked for in a community as values, and the tokens by which a way out of the fence is confirmed."""

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


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a passenger asks for: kept with the question, and what a confirmation then gets."""

    type: Kind
    lat: float
    lng: float
    origin: str | None = None
    destination: str | None = None
    destination_lat: float | None = None
    destination_lng: float | None = None
    price_cents: int | None = None

    def to_request(self) -> RideRequest:
        dropoff = None
        if self.destination_lat is not None and self.destination_lng is not None:
            dropoff = Place(self.destination_lat, self.destination_lng)
        return RideRequest(
            pickup=Place(self.lat, self.lng),
            pickup_address=self.origin,
            dropoff=dropoff,
            dropoff_address=self.destination,
            asked_price_cents=self.price_cents,
        )

    def digest(self) -> bytes:
        """The same for the same wish."""
        return hashlib.sha256(write_asked(self).encode()).digest()


def write_asked(asked: Asked) -> str:
    return msgspec.json.encode(asked).decode()


def read_asked(text: str | bytes) -> Asked:
    return msgspec.json.decode(text, type=Asked)


class TokenMaker:
    """Makes a confirmation's token from its id, so that a repeated question gets the same one."""

    def __init__(self, secret: str) -> None:
        self._key = hashlib.sha256(b"ride confirmations\0" + secret.encode()).digest()

    def token_of(self, confirmation_id: UUID) -> str:
        """64 hexadecimal digits; kept nowhere."""
        return hmac.new(self._key, confirmation_id.bytes, hashlib.sha256).hexdigest()


def hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """A passenger was asked, once, whether drivers from elsewhere will do."""

    id: ConfirmationId
    passenger_id: UserId
    asked: Asked
    community_id: CommunityId
    community_version: int
    tier: Tier
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None
    ride_id: RideId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What becomes of the ride if drivers from elsewhere will do; None where nobody can say."""

    tier: Tier
    # How far the nearest of them is from the passenger, and how long they need.
    distance_meters: int | None
    wait_seconds: int | None
    fare_cents: int
    # What it would cost with the community's own.
    home_fare_cents: int


@dataclass(frozen=True, slots=True)
class Created:
    """A new ride; beyond the fence, if a passenger has confirmed that."""

    ride: Ride
    confirmed: bool = False
    # A driver of the community's own was there, after all.
    at_home: bool = False


@dataclass(frozen=True, slots=True)
class CreatedBefore:
    """The confirmation was used already: this is its ride."""

    ride: Ride


@dataclass(frozen=True, slots=True)
class NeedsConfirmation:
    confirmation: Confirmation
    token: str
    changes: Changes


@dataclass(frozen=True, slots=True)
class Refused:
    refusal: Refusal


Answer = Created | CreatedBefore | NeedsConfirmation | Refused
