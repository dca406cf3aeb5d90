"""What the server answers, as values. Fields that are not known here are ignored: servers grow."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The base of all of them."""


class Quote(Answer, frozen=True):
    distance_meters: int
    duration_seconds: int
    fare_cents: int
    currency: str


class Person(Answer, frozen=True):
    """The other party of a ride."""

    id: UUID
    name: str | None = None
    phone: str | None = None
    vehicle: str | None = None
    plate: str | None = None


class Ride(Answer, frozen=True):
    """A ride, as far as the caller may see it."""

    ride_id: UUID
    # REQUESTED SEARCHING OFFERED ACCEPTED ARRIVING STARTED COMPLETED PAID CANCELED EXPIRED PAYMENT_EXPIRED
    status: str
    round: int
    seen_as: str
    pickup_lat: float
    pickup_lon: float
    created_at: datetime
    deadline_at: datetime
    passenger_id: UUID | None = None
    passenger: Person | None = None
    driver_id: UUID | None = None
    driver: Person | None = None
    pickup_address: str | None = None
    dropoff_lat: float | None = None
    dropoff_lon: float | None = None
    dropoff_address: str | None = None
    distance_meters: int | None = None
    duration_seconds: int | None = None
    estimated_fare_cents: int | None = None
    final_fare_cents: int | None = None
    accepted_at: datetime | None = None
    arrived_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    canceled_at: datetime | None = None
    canceled_by: str | None = None
    cancel_reason: str | None = None
    offer_expires_at: datetime | None = None
    type: str = "normal"
    community_id: UUID | None = None
    tier: str | None = None


class RidePage(Answer, frozen=True):
    rides: list[Ride]
    # For the next page's `before`; nothing on the last one.
    next: UUID | None = None


class Accepted(Answer, frozen=True):
    ride_id: UUID
    driver_id: UUID
    passenger_id: UUID
    accepted_at: datetime
    pickup_lat: float
    pickup_lon: float
    dropoff_lat: float | None = None
    dropoff_lon: float | None = None


class Offer(Answer, frozen=True):
    offer_id: UUID
    driver_id: UUID
    attempt: int
    round: int
    offered_at: datetime
    expires_at: datetime
    response: str | None = None
    responded_at: datetime | None = None
    reason: str | None = None


class Skipped(Answer, frozen=True):
    driver_id: UUID
    reason: str


class Offers(Answer, frozen=True):
    offers: list[Offer]
    # Who was not asked, and why.
    skipped: list[Skipped]


class Standing(Answer, frozen=True):
    """Whether a driver is at work."""

    driver_id: UUID
    online: bool
    since: datetime | None = None
    position_rejected: str | None = None


class Ping(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a driver is, or was `at` a moment."""

    lat: float
    lng: float
    at: datetime | None = None
    accuracy_meters: float | None = None
    speed: float | None = None
    heading: float | None = None


class RejectedPing(Answer, frozen=True):
    index: int
    code: str


class Pings(Answer, frozen=True):
    """What became of pings: those rejected did not move the driver."""

    accepted: int
    rejected: list[RejectedPing]


class Place(Answer, frozen=True):
    lat: float
    lng: float


class Position(Place, frozen=True):
    """Where a driver is, and since when that is known."""

    updated_at: datetime
    heading_degrees: float | None = None
    speed_mps: float | None = None


class NewShare(Answer, frozen=True):
    """A link to a trip: whoever has its `token` sees the trip at `path`."""

    id: UUID
    token: str
    path: str
    expires_at: datetime


class Share(Answer, frozen=True):
    id: UUID
    created_at: datetime
    expires_at: datetime


class Shares(Answer, frozen=True):
    shares: list[Share]


class TripDriver(Answer, frozen=True):
    name: str | None = None
    vehicle: str | None = None
    plate: str | None = None


class Trip(Answer, frozen=True):
    """A ride as whoever has its link sees it; what is not known or not shown is left out."""

    status: str
    passenger_name: str | None = None
    driver: TripDriver | None = None
    pickup: Place | None = None
    dropoff: Place | None = None
    position: Position | None = None
    ended_at: datetime | None = None
    ended_near: Place | None = None


class Notification(Answer, frozen=True):
    """A message as it is kept."""

    seq: int
    type: str
    data: dict[str, Any]
    created_at: datetime
    read_at: datetime | None = None


class NotificationPage(Answer, frozen=True):
    items: list[Notification]
    # For the next page; nothing on the last one.
    next: int | None = None
    unread: int = 0


class Marked(Answer, frozen=True):
    """Which were not marked as read before, and how many are left."""

    marked: list[int]
    unread: int


class Message(msgspec.Struct, frozen=True):
    """What a person is told. Without a `seq` it is of the moment, such as a position, and never repeated."""

    seq: int | None
    type: str
    data: dict[str, Any]


class Community(Answer, frozen=True):
    community_id: UUID
    version: int
    name: str
    retired: bool
    changed_at: datetime
    # GeoJSON, where it was asked for.
    fence: dict[str, Any] | None = None
    fallback: list[str] = []
    neighbour_ids: list[UUID] = []
    confirmation_ttl_seconds: int | None = None


class CommunityPage(Answer, frozen=True):
    communities: list[Community]
    next: UUID | None = None


class CommunityRide(Answer, frozen=True, rename="camel"):
    """A ride in a community; all of it is at `rides.read`."""

    id: UUID
    type: str
    status: str
    created_at: datetime
    deadline_at: datetime
    community_id: UUID | None = None
    # How far its drivers may come from: home, neighbours or open.
    tier: str | None = None
    fare_cents: int | None = None
    price: float | None = None


class Changes(Answer, frozen=True, rename="camel"):
    """What becomes of a ride with drivers from elsewhere; nothing where nobody can say."""

    tier: str
    fare_cents: int
    home_fare_cents: int
    distance_meters: int | None = None
    wait_seconds: int | None = None


class Question(Answer, frozen=True):
    """Will drivers from elsewhere do? Until it is confirmed, there is no ride."""

    token: str
    expires_at: datetime
    message: str
    changes: Changes


class CommunityAnswer(Answer, frozen=True, rename="camel"):
    """Either of them, as it is on the wire."""

    message: str
    ride: CommunityRide | None = None
    confirmation_token: str | None = None
    expires_at: datetime | None = None
    changes: Changes | None = None

    def found(self) -> CommunityRide:
        assert self.ride is not None, "whoever confirms gets a ride"
        return self.ride

    def question(self) -> Question | None:
        if self.confirmation_token is None or self.expires_at is None or self.changes is None:
            return None
        return Question(
            token=self.confirmation_token,
            expires_at=self.expires_at,
            message=self.message,
            changes=self.changes,
        )
