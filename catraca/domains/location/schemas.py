"""HTTP schemas shared by location's features: pings and places."""

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from catraca.domains.location.model import MAX_LATITUDE, Ping
from catraca.platform.forms import Body, Moment, also_as
from catraca.platform.geo import Longitude, Place

EXAMPLE_ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60"
EXAMPLE_PLACE: JsonDict = {"lat": -12.9777, "lng": -38.5016}


Latitude = Annotated[float, Field(strict=True, ge=-MAX_LATITUDE, le=MAX_LATITUDE, allow_inf_nan=False)]


class PingIn(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{**EXAMPLE_PLACE, "at": "2031-05-30T14:00:00Z", "accuracy_meters": 8.0}]
        }
    )

    lat: Latitude
    lng: Annotated[Longitude, also_as("lng", "lon")]
    at: Moment | None = Field(default=None, description="Time of the position; default: now.")
    accuracy_meters: float | None = Field(default=None, strict=True, ge=0, le=100_000)
    speed: float | None = Field(default=None, strict=True, ge=0, le=1000, description="Metres per second.")
    heading: float | None = Field(default=None, strict=True, ge=0, le=360, description="Degrees; 0 is north.")

    def to_ping(self, now: datetime) -> Ping:
        at = self.at.astimezone(UTC) if self.at else now
        return Ping(Place(self.lat, self.lng), at, self.accuracy_meters, self.speed, self.heading)


class PlaceOut(BaseModel):
    lat: float
    lng: float

    @classmethod
    def of(cls, place: Place | None) -> Self | None:
        return None if place is None else cls(lat=place.lat, lng=place.lon)
