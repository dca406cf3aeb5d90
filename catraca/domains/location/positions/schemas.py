"""HTTP schema of a driver's position."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from catraca.domains.location.model import Ping
from catraca.domains.location.schemas import EXAMPLE_PLACE


class PositionOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    **EXAMPLE_PLACE,
                    "updated_at": "2031-05-30T14:00:00Z",
                    "heading_degrees": 90.0,
                    "speed_mps": 9.5,
                }
            ]
        }
    )

    lat: float
    lng: float
    updated_at: datetime = Field(description="Time of the position, by the driver's clock.")
    heading_degrees: float | None = Field(default=None, description="0 is north; omitted if unknown.")
    speed_mps: float | None = Field(default=None, description="Metres per second; omitted if unknown.")

    @classmethod
    def of(cls, ping: Ping) -> Self:
        return cls(
            lat=ping.place.lat,
            lng=ping.place.lon,
            updated_at=ping.at,
            heading_degrees=ping.heading_degrees,
            speed_mps=ping.speed_mps,
        )
