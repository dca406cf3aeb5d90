"""HTTP schemas of trip links."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from catraca.domains.location.positions.schemas import PositionOut
from catraca.domains.location.schemas import EXAMPLE_ID, EXAMPLE_PLACE, PlaceOut
from catraca.domains.location.sharing.model import Share, SharedTrip, TripStatus
from catraca.platform.forms import Body

MIN_SHARE_SECONDS = 60
DEFAULT_SHARE_SECONDS = 4 * 3600
MAX_SHARE_SECONDS = 24 * 3600
EXAMPLE_LINK = "q0eJ7cXvK2nVw3bT9yZ5mA1sD8fG4hL6pR0uE2iO7kM"


class ShareIn(Body):
    model_config = ConfigDict(json_schema_extra={"examples": [{"ttl_seconds": 3600}]})

    ttl_seconds: float = Field(
        default=DEFAULT_SHARE_SECONDS,
        strict=True,
        ge=MIN_SHARE_SECONDS,
        le=MAX_SHARE_SECONDS,
        description="How long the link works, at most until an hour after the end of the ride.",
    )


class NewShareOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": EXAMPLE_ID,
                    "token": EXAMPLE_LINK,
                    "path": f"/v1/trips/{EXAMPLE_LINK}",
                    "expires_at": "2031-05-30T18:00:00Z",
                }
            ]
        }
    )

    id: UUID
    token: str = Field(description="Returned only here. Everyone with the token sees the trip.")
    path: str = Field(description="Path of the trip on this server.")
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
    shares: list[ShareOut] = Field(description="Links that work now, oldest first.")

    @classmethod
    def of(cls, shares: Sequence[Share]) -> Self:
        return cls(shares=[ShareOut.model_validate(share) for share in shares])


class TripDriverOut(BaseModel):
    name: str | None = Field(default=None, description="First name.")
    vehicle: str | None = None
    plate: str | None = None


class TripOut(BaseModel):
    """What a link shows of a trip; unknown and hidden fields are omitted."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "status": "STARTED",
                    "passenger_name": "Ana",
                    "driver": {"name": "Severino", "vehicle": "Fiat Uno", "plate": "QKT4B07"},
                    "pickup": {"lat": -12.978, "lng": -38.502},
                    "dropoff": {"lat": -13.01, "lng": -38.533},
                    "position": {**EXAMPLE_PLACE, "updated_at": "2031-05-30T14:00:00Z"},
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
    passenger_name: str | None = Field(default=None, description="First name.")
    driver: TripDriverOut | None = Field(default=None, description="While the ride is under way.")
    pickup: PlaceOut | None = Field(default=None, description="Rounded to about a hundred metres.")
    dropoff: PlaceOut | None = Field(default=None, description="Rounded to about a hundred metres.")
    position: PositionOut | None = Field(default=None, description="While the ride is under way.")
    ended_at: datetime | None = Field(default=None, description="Rounded to the minute.")
    ended_near: PlaceOut | None = Field(default=None, description="Rounded to about a kilometre.")

    @classmethod
    def of(cls, trip: SharedTrip) -> Self:
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
