"""The request for a ride."""

from typing import Annotated, Self

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from catraca.domains.rides.requests.model import RideRequest
from catraca.domains.rides.schemas import PLACES
from catraca.platform.forms import Address, Body, also_as, left_out
from catraca.platform.geo import Latitude, Longitude, Place


class RideIn(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "dependentRequired": {"dropoff_lat": ["dropoff_lon"], "dropoff_lon": ["dropoff_lat"]},
            "examples": [{**PLACES, "pickup_address": "Praça da Sé, 3", "dropoff_address": "Farol da Barra"}],
        }
    )

    pickup_lat: Latitude
    pickup_lon: Annotated[Longitude, also_as("pickup_lon", "pickup_lng")]
    pickup_address: Address | None = None
    dropoff_lat: Latitude = Field(
        default_factory=left_out, description="Left out, both of them: the destination is not known yet."
    )
    dropoff_lon: Annotated[Longitude, also_as("dropoff_lon", "dropoff_lng")] = Field(default_factory=left_out)
    dropoff_address: Address | None = None

    @model_validator(mode="after")
    def _whole_dropoff(self) -> Self:
        if ("dropoff_lat" in self.model_fields_set) != ("dropoff_lon" in self.model_fields_set):
            raise PydanticCustomError("place_incomplete", "place_incomplete")
        return self

    def to_request(self) -> RideRequest:
        dropoff = None
        if "dropoff_lat" in self.model_fields_set:
            dropoff = Place(self.dropoff_lat, self.dropoff_lon)
        return RideRequest(
            pickup=Place(self.pickup_lat, self.pickup_lon),
            pickup_address=self.pickup_address,
            dropoff=dropoff,
            dropoff_address=self.dropoff_address,
        )
