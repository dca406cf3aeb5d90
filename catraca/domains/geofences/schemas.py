"""HTTP schemas of the governance route, under the names of its contract."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from catraca.domains.communities import Tier
from catraca.domains.geofences.model import Changes, CommunityRequest, ConfirmationNeeded, Kind
from catraca.domains.rides import Ride, Status
from catraca.platform.forms import Address, Body, also_as, left_out
from catraca.platform.geo import Latitude, Longitude

PASSENGER_ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f61"
RIDE_ID = "0198a8b2-3c00-7000-8000-000000000001"
COMMUNITY_ID = "0198a8b2-3c00-7000-8000-000000000003"
TOKEN = "5f1d" * 16
PLACE: Any = {"passengerLat": -23.5505, "passengerLng": -46.6333}
# The request's field for each field of the body.
NAMES = {
    "type": "type",
    "passenger_lat": "lat",
    "passenger_lng": "lng",
    "origin": "origin",
    "destination": "destination",
    "destination_lat": "destination_lat",
    "destination_lng": "destination_lng",
    "price": "price_cents",
}


class GovernanceIn(Body):
    """A ride to request; or a token to confirm, with which all other fields are optional."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        json_schema_extra={
            "anyOf": [
                {"required": ["type", "passengerLat", "passengerLng"]},
                {"required": ["confirmationToken"]},
            ],
            "dependentRequired": {
                "destinationLat": ["destinationLng"],
                "destinationLng": ["destinationLat"],
            },
            "examples": [
                {
                    "passengerId": PASSENGER_ID,
                    "type": "comunidade",
                    **PLACE,
                    "origin": "Origem",
                    "destination": "Destino",
                    "price": 15.5,
                },
                {"passengerId": PASSENGER_ID, "confirmationToken": TOKEN},
            ],
        },
    )

    passenger_id: UUID | None = Field(default=None, description="Default: the caller.")
    confirmation_token: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        default_factory=left_out, description="From the answer 202: confirms drivers from elsewhere."
    )
    type: Kind = Field(
        default_factory=left_out, description="`comunidade`: the community's own drivers first."
    )
    passenger_lat: Latitude = Field(default_factory=left_out)
    passenger_lng: Annotated[Longitude, also_as("passengerLng", "passengerLon")] = Field(
        default_factory=left_out
    )
    origin: Address | None = None
    destination: Address | None = None
    destination_lat: Latitude = Field(
        default_factory=left_out, description="Without a destination the fare is the minimum."
    )
    destination_lng: Annotated[Longitude, also_as("destinationLng", "destinationLon")] = Field(
        default_factory=left_out
    )
    price: Annotated[float, Field(strict=True, ge=0, le=1_000_000, allow_inf_nan=False)] | None = Field(
        default=None, description="The app's estimate. The server computes the fare."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        sent = self.model_fields_set
        if ("destination_lat" in sent) != ("destination_lng" in sent):
            raise PydanticCustomError("place_incomplete", "place_incomplete")
        if not self.confirms and not sent >= {"type", "passenger_lat", "passenger_lng"}:
            raise PydanticCustomError("ride_incomplete", "ride_incomplete")
        return self

    @property
    def confirms(self) -> bool:
        return "confirmation_token" in self.model_fields_set

    def request_fields(self) -> dict[str, Any]:
        """The sent fields of the ride, under the names of `CommunityRequest`."""
        values = {field: getattr(self, name) for name, field in NAMES.items()}
        if self.price is not None:
            values["price_cents"] = round(self.price * 100)
        return {name: value for name, value in values.items() if value is not None}

    def to_request(self) -> CommunityRequest:
        return CommunityRequest(**self.request_fields())


def body_name(field: str) -> str:
    """The name in the body of this field of `CommunityRequest`."""
    return next(to_camel(name) for name, own in NAMES.items() if own == field)


class LocalizedOut(BaseModel):
    """An answer with a message in the caller's language."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class GovernedRideOut(LocalizedOut):
    """A ride, under the names of this contract. `GET /v1/rides/{id}` has all its fields."""

    id: UUID
    type: Kind
    status: Status
    passenger_id: UUID
    community_id: UUID | None
    tier: Tier | None = Field(description="Which drivers may get it.")
    passenger_lat: float
    passenger_lng: float
    origin: str | None
    destination: str | None
    destination_lat: float | None
    destination_lng: float | None
    price: float | None = Field(description="The app's estimate.")
    fare_cents: int | None = Field(description="Null: computed from the distance driven.")
    created_at: datetime
    deadline_at: datetime = Field(description="End of the search for a driver.")

    @classmethod
    def of(cls, ride: Ride) -> Self:
        return cls(
            id=ride.id,
            type=ride.type,
            status=ride.status,
            passenger_id=ride.passenger_id,
            community_id=ride.community_id,
            tier=ride.tier,
            passenger_lat=ride.pickup_lat,
            passenger_lng=ride.pickup_lon,
            origin=ride.pickup_address,
            destination=ride.dropoff_address,
            destination_lat=ride.dropoff_lat,
            destination_lng=ride.dropoff_lon,
            price=None if ride.asked_price_cents is None else ride.asked_price_cents / 100,
            fare_cents=ride.estimated_fare_cents,
            created_at=ride.created_at,
            deadline_at=ride.deadline_at,
        )


RIDE: Any = {
    "id": RIDE_ID,
    "type": "comunidade",
    "status": "REQUESTED",
    "passengerId": PASSENGER_ID,
    "communityId": COMMUNITY_ID,
    "tier": "open",
    **PLACE,
    "origin": "Origem",
    "destination": "Destino",
    "destinationLat": None,
    "destinationLng": None,
    "price": 15.5,
    "fareCents": 1600,
    "createdAt": "2025-08-14T12:00:00Z",
    "deadlineAt": "2025-08-14T12:05:00Z",
}


class GovernedOut(LocalizedOut):
    """A new ride (201), or the ride of a confirmation that was used before (200)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "success": True,
                    "rideId": RIDE_ID,
                    "ride": RIDE,
                    "message": "Corrida fora da cerca criada com sucesso",
                }
            ]
        }
    )

    success: Literal[True] = True
    ride_id: UUID
    ride: GovernedRideOut
    message: str


class ChangesOut(LocalizedOut):
    """What is different with drivers from elsewhere."""

    tier: Tier = Field(description="`neighbours`: drivers of neighbour communities; `open`: all drivers.")
    distance_meters: int | None = Field(description="Of the nearest driver; null: none is available now.")
    wait_seconds: int | None = Field(description="Until the nearest driver arrives.")
    fare_cents: int
    home_fare_cents: int = Field(description="The fare with the community's own drivers.")

    @classmethod
    def of(cls, changes: Changes) -> Self:
        return cls(
            tier=changes.tier,
            distance_meters=changes.distance_meters,
            wait_seconds=changes.wait_seconds,
            fare_cents=changes.fare_cents,
            home_fare_cents=changes.home_fare_cents,
        )


class ConfirmationOut(LocalizedOut):
    """The community has no available driver. No ride exists until the passenger confirms."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "success": False,
                    "requiresConfirmation": True,
                    "confirmationToken": TOKEN,
                    "expiresAt": "2025-08-14T12:05:00Z",
                    "ttlMinutes": 5,
                    "message": "Nenhum motorista disponível na sua comunidade. "
                    "Confirme para buscar motoristas de outras áreas.",
                    "changes": {
                        "tier": "open",
                        "distanceMeters": 1900,
                        "waitSeconds": 270,
                        "fareCents": 1600,
                        "homeFareCents": 1200,
                    },
                }
            ]
        }
    )

    success: Literal[False] = False
    requires_confirmation: Literal[True] = True
    confirmation_token: str = Field(description="64 hexadecimal digits; the same for the same request.")
    expires_at: datetime
    ttl_minutes: int | float = Field(description="From the first request.")
    message: str
    changes: ChangesOut

    @classmethod
    def of(cls, needed: ConfirmationNeeded, message: str) -> Self:
        confirmation = needed.confirmation
        minutes = round((confirmation.expires_at - confirmation.created_at).total_seconds() / 60, 2)
        return cls(
            confirmation_token=needed.token,
            expires_at=confirmation.expires_at,
            ttl_minutes=int(minutes) if minutes.is_integer() else minutes,
            message=message,
            changes=ChangesOut.of(needed.changes),
        )
