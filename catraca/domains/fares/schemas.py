"""Request and response of the quote route."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from catraca.domains.fares.model import Tariff, fare_cents
from catraca.platform.forms import Body, also_as
from catraca.platform.geo import Latitude, Longitude, Place, Trip, estimate_trip


class QuoteIn(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "pickup_lat": -12.9777,
                    "pickup_lon": -38.5016,
                    "dropoff_lat": -13.0102,
                    "dropoff_lon": -38.5326,
                }
            ]
        }
    )

    pickup_lat: Latitude
    pickup_lon: Annotated[Longitude, also_as("pickup_lon", "pickup_lng")]
    dropoff_lat: Latitude
    dropoff_lon: Annotated[Longitude, also_as("dropoff_lon", "dropoff_lng")]

    def trip(self) -> Trip:
        return estimate_trip(
            Place(self.pickup_lat, self.pickup_lon), Place(self.dropoff_lat, self.dropoff_lon)
        )


class QuoteOut(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"distance_meters": 6390, "duration_seconds": 920, "fare_cents": 2110, "currency": "BRL"}
            ]
        }
    )

    distance_meters: int = Field(description="By road, estimated.")
    duration_seconds: int = Field(description="By road, estimated.")
    fare_cents: int = Field(description="Fare of such a ride, in hundredths of the currency.")
    currency: str

    @classmethod
    def of(cls, trip: Trip, tariff: Tariff) -> "QuoteOut":
        return cls(
            distance_meters=trip.distance_meters,
            duration_seconds=trip.duration_seconds,
            fare_cents=fare_cents(tariff, trip),
            currency=tariff.currency,
        )
