"""Responses that show rides."""

from collections.abc import Sequence
from datetime import datetime
from typing import Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.communities import Tier
from catraca.domains.people import User
from catraca.domains.rides.model import Actor, Ride, RideType, Status
from catraca.domains.rides.schemas import DRIVER_ID, MOMENT, PASSENGER_ID, PLACES, RIDE_ID
from catraca.domains.rides.views.service import Part, RideView
from catraca.platform.forms import Answer, Next, examples, split_page


class PersonOut(BaseModel):
    """The other party, while the ride is driven."""

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


class RideOut(Answer):
    """A ride, with what the caller may see."""

    model_config = examples(
        {
            **PLACES,
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
    round: int = Field(description="Starts at 1; one more each time a driver gives the ride up.")
    seen_as: Part = Field(
        default="operator",
        description="The caller's part. `offered`: a driver with a live offer, who sees rounded places.",
    )
    type: RideType = Field(default="normal", description="`comunidade`: a community's drivers come first.")
    community_id: UUID | None = None
    tier: Tier | None = Field(default=None, description="The farthest drivers that may be offered the ride.")
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
    reported_meters: int | None = Field(
        default=None, description="Of a ride without a destination: the distance that the driver reported."
    )
    charged_meters: int | None = Field(default=None, description="The part of it that was charged.")
    created_at: datetime
    deadline_at: datetime = Field(description="End of the search for a driver.")
    accepted_at: datetime | None = None
    arrived_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    canceled_at: datetime | None = None
    canceled_by: Actor | None = None
    cancel_reason: str | None = None
    offer_expires_at: datetime | None = Field(default=None, description="End of the caller's live offer.")

    @classmethod
    def of(cls, view: RideView) -> Self:
        if view.part == "offered":
            return cls._for_offered_driver(view)
        if view.part == "driver" and not view.ride.is_driven:
            shown = cls._for_party(view.ride.blurred(), view)
            shown.passenger_id = None
            return shown
        return cls._for_party(view.ride, view)

    @classmethod
    def _for_party(cls, ride: Ride, view: RideView) -> Self:
        shown = cls.model_validate(ride)
        shown.seen_as = view.part
        shown.passenger = None if view.part == "passenger" else PersonOut.of(view.passenger)
        shown.driver = None if view.part == "driver" else PersonOut.of(view.driver)
        return shown

    @classmethod
    def _for_offered_driver(cls, view: RideView) -> Self:
        """Show what a driver needs to decide, and nothing about the passenger."""
        ride = view.ride.blurred()
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
    next: Next[UUID]

    @classmethod
    def of(cls, views: Sequence[RideView], *, limit: int) -> Self:
        page, after = split_page(views, limit=limit, cursor=lambda view: view.ride.id)
        return cls(rides=[RideOut.of(view) for view in page], next=after)
