"""What location's routes take and give."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import (
    AliasChoices,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
)
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from catraca.domains.location.model import (
    MAX_LATITUDE,
    DriverId,
    Fault,
    Ping,
    Share,
    Source,
    Trip,
    TripStatus,
)
from catraca.domains.location.service.pings import Taken
from catraca.domains.location.service.presence import Standing
from catraca.domains.location.service.searching import Near
from catraca.domains.people import Body
from catraca.platform.geo import Place
from catraca.platform.leases import Lease

PINGS_AT_ONCE = 100
# As many as the largest body holds, or nearly.
GATEWAY_PINGS_AT_ONCE = 500
LONGEST_LOCK_SECONDS = 3600
SHORTEST_SHARE_SECONDS = 60
USUAL_SHARE_SECONDS = 4 * 3600
LONGEST_SHARE_SECONDS = 24 * 3600
DRIVER = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60"
EXAMPLE_LINK = "q0eJ7cXvK2nVw3bT9yZ5mA1sD8fG4hL6pR0uE2iO7kM"
HERE: JsonDict = {"lat": -12.9777, "lng": -38.5016}


def _text_only(value: object) -> object:
    """A number would be taken for a moment as well, in seconds or milliseconds, whichever looks likelier."""
    if value is not None and not isinstance(value, str):
        raise PydanticCustomError("datetime_type", "datetime_type")
    return value


Latitude = Annotated[float, Field(strict=True, ge=-MAX_LATITUDE, le=MAX_LATITUDE, allow_inf_nan=False)]
Longitude = Annotated[float, Field(strict=True, ge=-180, le=180, allow_inf_nan=False)]
Moment = Annotated[AwareDatetime, BeforeValidator(_text_only)]


class PingIn(Body):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{**HERE, "at": "2031-05-30T14:00:00Z", "accuracy_meters": 8.0}]}
    )

    lat: Latitude
    lng: Longitude
    at: Moment | None = Field(default=None, description="When the driver was there; left out: now.")
    accuracy_meters: float | None = Field(default=None, strict=True, ge=0, le=100_000)
    speed: float | None = Field(default=None, strict=True, ge=0, le=1000, description="Metres a second.")
    heading: float | None = Field(default=None, strict=True, ge=0, le=360, description="0 is north.")

    def ping(self, now: datetime) -> Ping:
        return Ping(Place(self.lat, self.lng), self.at or now, self.accuracy_meters, self.speed, self.heading)


class GatewayPingIn(PingIn):
    model_config = ConfigDict(json_schema_extra={"examples": [{"driver_id": DRIVER, **HERE}]})

    driver_id: UUID


PingsIn = Annotated[
    Annotated[PingIn, Tag("one")]
    | Annotated[list[PingIn], Field(min_length=1, max_length=PINGS_AT_ONCE), Tag("list")],
    Discriminator(lambda sent: "list" if isinstance(sent, list) else "one"),
]
GatewayPingsIn = Annotated[list[GatewayPingIn], Field(min_length=1, max_length=GATEWAY_PINGS_AT_ONCE)]


def by_driver(sent: Sequence[GatewayPingIn], now: datetime) -> dict[DriverId, list[Ping]]:
    pings: dict[DriverId, list[Ping]] = {}
    for one in sent:
        pings.setdefault(DriverId(one.driver_id), []).append(one.ping(now))
    return pings


class Rejected(BaseModel):
    index: int = Field(description="Which ping, counted from 0.")
    code: Fault | Literal["offline"] = Field(description="Why it did not move the driver.")


class PingsOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"accepted": 2, "rejected": [{"index": 1, "code": "stale"}], "kept_in": "redis"}]
        }
    )

    accepted: int
    rejected: list[Rejected]
    kept_in: Source = Field(description="`database`: Redis is away, and positions are kept less often.")

    @classmethod
    def of(cls, taken: Taken, senders: Sequence[DriverId]) -> Self:
        """The outcomes in the order in which their drivers sent them."""
        left: Mapping[DriverId, list[Fault | None]] = {
            driver_id: outcomes[::-1] for driver_id, outcomes in taken.outcomes.items()
        }
        rejected: list[Rejected] = []
        for place, driver_id in enumerate(senders):
            code = "offline" if driver_id in taken.offline else left[driver_id].pop()
            if code is not None:
                rejected.append(Rejected(index=place, code=code))
        return cls(accepted=len(senders) - len(rejected), rejected=rejected, kept_in=taken.source)


class StatusIn(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"online": True, "position": HERE}]})

    online: bool = Field(strict=True)
    position: PingIn | None = Field(default=None, description="Where the driver begins; for going online.")


class StatusOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"driver_id": DRIVER, "online": True, "since": "2031-05-30T14:00:00Z"}]
        }
    )

    driver_id: UUID
    online: bool
    since: datetime | None = Field(description="Null: never seen at work.")
    position_rejected: Fault | None = Field(default=None, description="Why the position was not taken.")

    @classmethod
    def of(cls, driver_id: UUID, standing: Standing) -> Self:
        return cls(
            driver_id=driver_id,
            online=standing.online,
            since=standing.since,
            position_rejected=standing.fault,
        )


class NearOut(BaseModel):
    driver_id: UUID
    lat: float
    lng: float
    distance_meters: int
    position_age_seconds: float
    available: bool = Field(description="Heard of lately, and held by no offer and no ride.")

    @classmethod
    def of(cls, near: Near, now: datetime) -> Self:
        found = near.found
        return cls(
            driver_id=found.driver_id,
            lat=found.ping.place.lat,
            lng=found.ping.place.lon,
            distance_meters=round(found.distance_meters),
            position_age_seconds=max(0.0, round((now - found.ping.at).total_seconds(), 1)),
            available=near.available,
        )


class NearbyOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "source": "redis",
                    "drivers": [
                        {
                            "driver_id": DRIVER,
                            **HERE,
                            "distance_meters": 420,
                            "position_age_seconds": 1.5,
                            "available": True,
                        }
                    ],
                }
            ]
        }
    )

    source: Source = Field(description="`database`: Redis is away, and positions are some seconds old.")
    drivers: list[NearOut] = Field(description="The nearest first.")


class LockIn(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"ride_id": DRIVER, "ttl_seconds": 15}]})

    ride_id: UUID
    ttl_seconds: float | None = Field(
        default=None,
        strict=True,
        ge=1,
        le=LONGEST_LOCK_SECONDS,
        validation_alias=AliasChoices("ttl_seconds", "ttl"),
        description="How long, unless it is renewed or released; also as `ttl`.",
    )


class LockOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"locked": True, "expires_at": "2031-05-30T14:00:15Z", "fence": 1937829600000000},
                {"locked": False, "reason": "already_locked"},
            ]
        }
    )

    locked: bool
    expires_at: datetime | None = None
    fence: int | None = Field(default=None, description="Larger than that of every lock before it.")
    reason: Literal["already_locked"] | None = None

    @classmethod
    def of(cls, lease: Lease | None) -> Self:
        if lease is None:
            return cls(locked=False, reason="already_locked")
        return cls(locked=True, expires_at=lease.expires_at, fence=lease.fence)


class UnlockOut(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"released": True}]})

    released: bool = Field(description="False: this ride did not hold the driver.")


class PositionOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {**HERE, "updated_at": "2031-05-30T14:00:00Z", "heading_degrees": 90.0, "speed_mps": 9.5}
            ]
        }
    )

    lat: float
    lng: float
    updated_at: datetime = Field(description="When the driver was there, by the driver's clock.")
    heading_degrees: float | None = Field(default=None, description="0 is north; left out if not known.")
    speed_mps: float | None = Field(default=None, description="Metres a second; left out if not known.")

    @classmethod
    def of(cls, ping: Ping) -> Self:
        return cls(
            lat=ping.place.lat,
            lng=ping.place.lon,
            updated_at=ping.at,
            heading_degrees=ping.heading_degrees,
            speed_mps=ping.speed_mps,
        )


class ShareIn(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"ttl_seconds": 3600}]})

    ttl_seconds: float = Field(
        default=USUAL_SHARE_SECONDS,
        strict=True,
        ge=SHORTEST_SHARE_SECONDS,
        le=LONGEST_SHARE_SECONDS,
        description="How long the link works; an hour after the ride's end it does not in any case.",
    )


class NewShareOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": DRIVER,
                    "token": EXAMPLE_LINK,
                    "path": f"/v1/trips/{EXAMPLE_LINK}",
                    "expires_at": "2031-05-30T18:00:00Z",
                }
            ]
        }
    )

    id: UUID
    token: str = Field(description="Told this once: whoever has it sees the trip.")
    path: str = Field(description="Where the trip is to be seen, on this server.")
    expires_at: datetime

    @classmethod
    def of(cls, share: Share, token: str) -> Self:
        return cls(id=share.id, token=token, path=f"/v1/trips/{token}", expires_at=share.expires_at)


class ShareOut(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: UUID
    created_at: datetime
    expires_at: datetime


class SharesOut(BaseModel):
    shares: list[ShareOut] = Field(description="Those that work now, the oldest first.")

    @classmethod
    def of(cls, shares: Sequence[Share]) -> Self:
        return cls(shares=[ShareOut.model_validate(share) for share in shares])


class PlaceOut(BaseModel):
    lat: float
    lng: float

    @classmethod
    def of(cls, place: Place | None) -> Self | None:
        return None if place is None else cls(lat=place.lat, lng=place.lon)


class TripDriverOut(BaseModel):
    name: str | None = Field(default=None, description="The first one.")
    vehicle: str | None = None
    plate: str | None = None


class TripOut(BaseModel):
    """As much of a trip as whoever has its link may see; what is not known or not shown is left out."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": "STARTED",
                    "passenger_name": "Ana",
                    "driver": {"name": "Severino", "vehicle": "Fiat Uno", "plate": "QKT4B07"},
                    "pickup": {"lat": -12.978, "lng": -38.502},
                    "dropoff": {"lat": -13.01, "lng": -38.533},
                    "position": {**HERE, "updated_at": "2031-05-30T14:00:00Z"},
                },
                {
                    "status": "ENDED",
                    "ended_at": "2031-05-30T14:20:00Z",
                    "ended_near": {"lat": -13.01, "lng": -38.53},
                },
            ]
        }
    )

    status: TripStatus
    passenger_name: str | None = Field(default=None, description="The first one.")
    driver: TripDriverOut | None = Field(default=None, description="While the ride is under way.")
    pickup: PlaceOut | None = Field(default=None, description="To a hundred metres.")
    dropoff: PlaceOut | None = Field(default=None, description="To a hundred metres.")
    position: PositionOut | None = Field(default=None, description="While the ride is under way.")
    ended_at: datetime | None = Field(default=None, description="To the minute.")
    ended_near: PlaceOut | None = Field(default=None, description="To a kilometre.")

    @classmethod
    def of(cls, trip: Trip) -> Self:
        driver = TripDriverOut(name=trip.driver_name, vehicle=trip.vehicle, plate=trip.plate)
        return cls(
            status=trip.status,
            passenger_name=trip.passenger_name,
            driver=driver if driver.model_dump(exclude_none=True) else None,
            pickup=PlaceOut.of(trip.pickup),
            dropoff=PlaceOut.of(trip.dropoff),
            position=PositionOut.of(trip.position) if trip.position else None,
            ended_at=trip.ended_at,
            ended_near=PlaceOut.of(trip.ended_near),
        )
