"""HTTP schemas of the search for drivers."""

from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from catraca.domains.location.model import Source
from catraca.domains.location.nearby.model import NearbyDriver
from catraca.domains.location.schemas import EXAMPLE_ID, EXAMPLE_PLACE


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
