"""HTTP schemas of the search for drivers."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from catraca.domains.location.model import MAX_LATITUDE, Source
from catraca.domains.location.nearby.model import NearbyDriver
from catraca.domains.location.schemas import EXAMPLE_ID, EXAMPLE_PLACE
from catraca.platform.forms import Body, also_as

MAX_RADIUS_METERS = 50_000


class NearbyQuery(Body):
    lat: float = Field(ge=-MAX_LATITUDE, le=MAX_LATITUDE, allow_inf_nan=False)
    lng: Annotated[float, also_as("lng", "lon")] = Field(ge=-180, le=180, allow_inf_nan=False)
    radius_m: float = Field(default=5000, ge=1, le=MAX_RADIUS_METERS, allow_inf_nan=False)
    limit: int = Field(default=20, ge=1, le=100)
    include_unavailable: bool = Field(
        default=False, alias="all", description="Include online drivers who are not available."
    )


class NearOut(BaseModel):
    driver_id: UUID
    lat: float
    lng: float
    distance_meters: int
    position_age_seconds: float
    available: bool = Field(description="Sent a ping lately, and has no offer and no ride.")

    @classmethod
    def of(cls, driver: NearbyDriver, now: datetime) -> Self:
        return cls(
            driver_id=driver.driver_id,
            lat=driver.ping.place.lat,
            lng=driver.ping.place.lon,
            distance_meters=round(driver.distance_meters),
            position_age_seconds=max(0.0, round((now - driver.ping.at).total_seconds(), 1)),
            available=driver.is_available,
        )


class NearbyOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "source": "redis",
                    "drivers": [
                        {
                            "driver_id": EXAMPLE_ID,
                            **EXAMPLE_PLACE,
                            "distance_meters": 420,
                            "position_age_seconds": 1.5,
                            "available": True,
                        }
                    ],
                }
            ]
        }
    )

    source: Source = Field(description="`database`: Redis is down, and positions are some seconds old.")
    drivers: list[NearOut] = Field(description="Nearest first.")
