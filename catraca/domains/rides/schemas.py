"""What the routes of rides take and give."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from catraca.domains.communities import Tier
from catraca.domains.people import Address, Body, Reason, User, left_out
from catraca.domains.rides.model import (
    DRIVEN,
    Actor,
    CancelReason,
    Failure,
    Kind,
    MadeOffers,
    RejectReason,
    Response,
    Ride,
    RideRequest,
    Skipped,
    Status,
)
from catraca.domains.rides.service.reading import Part, RideView
from catraca.domains.rides.store.attempts import RecordedAttempt
from catraca.platform.geo import Latitude, Longitude, Place

RIDE_ID = "0198a8b2-3c00-7000-8000-000000000001"
DRIVER_ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60"
PASSENGER_ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f61"
OFFER_ID = "0198a8b2-3c00-7000-8000-000000000002"
MOMENT = "2025-08-14T12:00:00Z"
WAY: JsonDict = {
    "pickup_lat": -12.9777,
    "pickup_lon": -38.5016,
    "dropoff_lat": -13.0102,
    "dropoff_lon": -38.5326,
}
OFFERED_AT_ONCE = 1000


def _example(example: JsonDict) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [example]})


class Told(BaseModel):
    """An answer whose fields are those of what it tells."""

    model_config = ConfigDict(from_attributes=True, populate_by_name=True)


def _number(value: object) -> object:
    """JSON has one kind of number: 12.0 is as whole as 12. Neither "12" nor true is one."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise PydanticCustomError("int_type", "int_type")
    return value


class RideIn(Body):
    model_config = ConfigDict(
        json_schema_extra={
            "dependentRequired": {"dropoff_lat": ["dropoff_lon"], "dropoff_lon": ["dropoff_lat"]},
            "examples": [{**WAY, "pickup_address": "Praça da Sé, 3", "dropoff_address": "Farol da Barra"}],
        }
    )

    pickup_lat: Latitude
    pickup_lon: Longitude
    pickup_address: Address | None = None
    dropoff_lat: Latitude = Field(
        default_factory=left_out, description="Left out, both of them: wherever the passenger says."
    )
    dropoff_lon: Longitude = Field(default_factory=left_out)
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


class PersonOut(BaseModel):
    """The other party, while there is a ride between the two."""

    id: UUID
    name: str | None
    phone: str | None
    vehicle: str | None = Field(default=None, description="A driver's.")
    plate: str | None = Field(default=None, description="A driver's.")

    @classmethod
    def of(cls, user: User | None) -> Self | None:
        if user is None:
            return None
        car = user.driver
        return cls(
            id=user.id,
            name=user.name,
            phone=user.phone,
            vehicle=car.vehicle if car else None,
            plate=car.plate if car else None,
        )


class RideOut(Told):
    """A ride, as far as the caller may see it."""

    model_config = _example(
        {
            **WAY,
            "ride_id": RIDE_ID,
            "status": "ACCEPTED",
            "round": 1,
            "seen_as": "passenger",
            "passenger_id": PASSENGER_ID,
            "driver_id": DRIVER_ID,
            "driver": {"id": DRIVER_ID, "name": "Severino Lacerda", "phone": None, "plate": "QKT4B07"},
            "estimated_fare_cents": 2110,
            "created_at": MOMENT,
            "accepted_at": MOMENT,
            "deadline_at": MOMENT,
        }
    )

    ride_id: UUID = Field(validation_alias="id")
    status: Status
    round: int = Field(description="One more each time a driver gave the ride up.")
    seen_as: Part = Field(
        default="operator", description="`offered` is a driver who has not accepted: places are rough then."
    )
    type: Kind = Field(default="normal", description="`comunidade`: with a community's own drivers first.")
    community_id: UUID | None = None
    tier: Tier | None = Field(default=None, description="How far its drivers may come from.")
    passenger_id: UUID | None
    passenger: PersonOut | None = None
    driver_id: UUID | None = Field(default=None, validation_alias="accepted_driver_id")
    driver: PersonOut | None = None
    pickup_lat: float
    pickup_lon: float
    pickup_address: str | None = None
    dropoff_lat: float | None = None
    dropoff_lon: float | None = None
    dropoff_address: str | None = None
    distance_meters: int | None = Field(default=None, description="By road, estimated.")
    duration_seconds: int | None = Field(default=None, description="By road, estimated.")
    estimated_fare_cents: int | None = None
    final_fare_cents: int | None = None
    created_at: datetime
    deadline_at: datetime = Field(description="Until when a driver is looked for.")
    accepted_at: datetime | None = None
    arrived_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    canceled_at: datetime | None = None
    canceled_by: Actor | None = None
    cancel_reason: str | None = None
    offer_expires_at: datetime | None = Field(default=None, description="To whom it is offered: until when.")

    @classmethod
    def of(cls, view: RideView) -> Self:
        if view.part == "offered":
            return cls._rough(view)
        if view.part == "driver" and view.ride.status not in DRIVEN:
            return cls._whole(view.ride.without_doors(), view)
        return cls._whole(view.ride, view)

    @classmethod
    def _whole(cls, ride: Ride, view: RideView) -> Self:
        seen = cls.model_validate(ride)
        seen.seen_as = view.part
        seen.passenger = None if view.part == "passenger" else PersonOut.of(view.passenger)
        seen.driver = None if view.part == "driver" else PersonOut.of(view.driver)
        return seen

    @classmethod
    def _rough(cls, view: RideView) -> Self:
        """What a driver must know to decide, and nothing that tells whose ride it is."""
        ride = view.ride.without_doors()
        return cls(
            ride_id=ride.id,
            type=ride.type,
            community_id=ride.community_id,
            tier=ride.tier,
            status=ride.status,
            round=ride.round,
            seen_as=view.part,
            passenger_id=None,
            pickup_lat=ride.pickup_lat,
            pickup_lon=ride.pickup_lon,
            dropoff_lat=ride.dropoff_lat,
            dropoff_lon=ride.dropoff_lon,
            distance_meters=ride.distance_meters,
            duration_seconds=ride.duration_seconds,
            estimated_fare_cents=ride.estimated_fare_cents,
            created_at=ride.created_at,
            deadline_at=ride.deadline_at,
            offer_expires_at=view.offer.expires_at if view.offer else None,
        )


class RidePage(BaseModel):
    rides: list[RideOut]
    next: UUID | None = Field(description="For the next page's `before`; null on the last one.")

    @classmethod
    def of(cls, views: Sequence[RideView], *, limit: int) -> Self:
        shown = views[:limit]
        more = len(views) > limit
        return cls(rides=[RideOut.of(view) for view in shown], next=shown[-1].ride.id if more else None)


class OffersIn(Body):
    model_config = _example({"driver_ids": [DRIVER_ID], "ttl_seconds": 20})

    driver_ids: Annotated[list[UUID], Field(min_length=1, max_length=OFFERED_AT_ONCE)]
    ttl_seconds: Annotated[float, Field(strict=True, gt=0, le=3600, allow_inf_nan=False)] | None = Field(
        default=None, description="How long the drivers may think about it; left out: the setting."
    )


class OfferOut(Told):
    offer_id: UUID = Field(validation_alias="id")
    driver_id: UUID
    attempt: int = Field(description="The ride's offers are counted.")
    round: int
    offered_at: datetime
    expires_at: datetime
    response: Response | None = None
    responded_at: datetime | None = None
    reason: str | None = None


class SkippedOut(BaseModel):
    driver_id: UUID
    reason: Skipped


class OffersOut(BaseModel):
    model_config = _example(
        {
            "offers": [
                {
                    "offer_id": OFFER_ID,
                    "driver_id": DRIVER_ID,
                    "attempt": 1,
                    "round": 1,
                    "offered_at": MOMENT,
                    "expires_at": "2025-08-14T12:00:20Z",
                }
            ],
            "skipped": [{"driver_id": PASSENGER_ID, "reason": "busy"}],
        }
    )

    offers: list[OfferOut]
    skipped: list[SkippedOut] = Field(description="Who was not asked, and why.")

    @classmethod
    def of(cls, made: MadeOffers) -> Self:
        return cls(
            offers=[OfferOut.model_validate(offer) for offer in made.offers],
            skipped=[
                SkippedOut(driver_id=driver_id, reason=reason) for driver_id, reason in made.skipped.items()
            ],
        )


Key = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+$")]


class AcceptIn(Body):
    model_config = _example(
        {"driver_id": DRIVER_ID, "idempotency_key": "8b7c0c1e-6f0e-4f5e-9a55-5d2f0f6d7a10"}
    )

    driver_id: UUID | None = Field(default=None, description="The caller's own; left out, it is that.")
    idempotency_key: Key | None = Field(
        default=None,
        description="Or the header `Idempotency-Key`. Left out: all attempts at one offer count as one.",
    )


class AcceptOut(Told):
    model_config = _example(
        {
            "ride_id": RIDE_ID,
            "status": "ACCEPTED",
            "driver_id": DRIVER_ID,
            "passenger_id": PASSENGER_ID,
            "accepted_at": MOMENT,
            **WAY,
        }
    )

    ride_id: UUID
    status: Literal["ACCEPTED"] = "ACCEPTED"
    driver_id: UUID
    passenger_id: UUID
    accepted_at: datetime
    pickup_lat: float
    pickup_lon: float
    dropoff_lat: float | None
    dropoff_lon: float | None


class RejectIn(Body):
    model_config = _example({"driver_id": DRIVER_ID, "reason": "too_far"})

    driver_id: UUID | None = Field(default=None, description="The caller's own; left out, it is that.")
    reason: RejectReason | None = None


class CompleteIn(Body):
    model_config = _example({})

    distance_meters: Annotated[int, Field(ge=0, le=2_000_000), BeforeValidator(_number)] | None = Field(
        default=None, description="How far it went: needed for a ride that had no destination."
    )


class CancelIn(Body):
    model_config = _example({"reason": "changed_plans"})

    reason: CancelReason = Field(description="Who may give which: see the refusal `cancel_reason_invalid`.")
    note: Reason | None = Field(default=None, description="For the operators.")


class AttemptOut(Told):
    attempt_id: UUID = Field(validation_alias="id")
    driver_id: UUID
    offer_id: UUID | None
    idempotency_key: str
    status: Literal["SUCCESS", "FAILED"]
    failure_reason: Failure | None
    ride_status: Status = Field(description="Where the ride stood.")
    attempt_at: datetime
    actor_id: UUID = Field(description="Who asked: the driver, or an operator in the driver's name.")
    request_id: str | None
    user_agent: str | None
    ip_address: str | None


class AttemptPage(BaseModel):
    attempts: list[AttemptOut]
    next: UUID | None = Field(description="For the next page's `after`; null on the last one.")

    @classmethod
    def of(cls, attempts: Sequence[RecordedAttempt], *, limit: int) -> Self:
        shown = attempts[:limit]
        more = len(attempts) > limit
        return cls(
            attempts=[AttemptOut.model_validate(one) for one in shown], next=shown[-1].id if more else None
        )
