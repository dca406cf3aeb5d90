"""What is told about rides: each step from the request to the end."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from catraca.platform.event import Event

Round = Annotated[
    int, Meta(description="How often a driver has been looked for; older rounds are stale news.")
]
RiderId = Annotated[UUID, Meta(description="The passenger.")]
DriverId = Annotated[UUID, Meta(description="The driver.")]
FareCents = Annotated[int, Meta(description="In hundredths of the currency.", examples=[2550])]


class Point(msgspec.Struct, frozen=True):
    """Degrees, WGS 84."""

    lat: Annotated[float, Meta(examples=[-23.55])]
    lng: Annotated[float, Meta(examples=[-46.63])]


class RideEvent(Event, frozen=True, kw_only=True):
    """All of a ride's events carry its round."""

    exchange = "rides.events"
    about = "ride_id"

    ride_id: UUID
    round: Round


class RideRequested(RideEvent, frozen=True, kw_only=True, tag="ride.requested"):
    """A passenger asks for a ride."""

    rider_id: RiderId
    pickup: Annotated[Point, Meta(description="Where from.")]
    dropoff: Annotated[Point | None, Meta(description="Where to, if it was said.")] = None
    estimated_fare_cents: Annotated[int | None, Meta(description="As quoted.", examples=[2550])] = None
    deadline_at: Annotated[datetime, Meta(description="Until when a driver is looked for.")]


class ConfirmationExpired(Event, frozen=True, kw_only=True, tag="ride.confirmation_expired"):
    """A passenger was asked whether drivers from elsewhere will do, and did not say so in time: no ride."""

    exchange = "rides.events"
    about = "confirmation_id"

    confirmation_id: Annotated[UUID, Meta(description="The question.")]
    rider_id: RiderId
    expires_at: Annotated[datetime, Meta(description="Until when it could be confirmed.")]


class RideAccepted(RideEvent, frozen=True, kw_only=True, tag="ride.accepted"):
    """One driver has the ride, and nobody else will: at most once a round."""

    driver_id: DriverId
    passenger_id: RiderId
    offer_id: Annotated[UUID, Meta(description="The offer that was accepted.")]
    accepted_at: Annotated[datetime, Meta(description="When, by the database's clock.")]
    pickup_lat: Annotated[float, Meta(examples=[-23.55])]
    pickup_lon: Annotated[float, Meta(examples=[-46.63])]


class RideMatched(RideEvent, frozen=True, kw_only=True, tag="ride.matched"):
    """The driver is on the way: what a passenger sees of an acceptance. At most once a round."""

    rider_id: RiderId
    driver_id: DriverId
    pickup: Annotated[Point, Meta(description="Where from, to a hundred metres or so.")]
    started_at: Annotated[datetime, Meta(description="Since when a driver was looked for in this round.")]
    matched_at: Annotated[datetime, Meta(description="When the driver accepted.")]
    eta_seconds: Annotated[
        int | None,
        Meta(description="Until the driver is there; null when nobody knows where.", examples=[240]),
    ] = None
    pickup_distance_meters: Annotated[
        int | None, Meta(description="From the driver to there, by road, estimated.", examples=[1200])
    ] = None


class RideArriving(RideEvent, frozen=True, kw_only=True, tag="ride.arriving"):
    """The driver is at the point of departure, or nearly."""

    rider_id: RiderId
    driver_id: DriverId
    arrived_at: Annotated[datetime, Meta(description="When.")]


class RideStarted(RideEvent, frozen=True, kw_only=True, tag="ride.started"):
    """The passenger is in the car."""

    rider_id: RiderId
    driver_id: DriverId
    started_at: Annotated[datetime, Meta(description="When.")]


class RideCompleted(RideEvent, frozen=True, kw_only=True, tag="ride.completed"):
    """The passenger is where they wanted to be."""

    rider_id: RiderId
    driver_id: DriverId
    fare_cents: FareCents
    completed_at: Annotated[datetime, Meta(description="When.")]


class RideCancelled(RideEvent, frozen=True, kw_only=True, tag="ride.cancelled"):
    """The ride ends without having happened."""

    rider_id: RiderId
    driver_id: Annotated[UUID | None, Meta(description="Who was to drive, if somebody was.")] = None
    cancelled_by: Annotated[
        str, Meta(description="passenger, driver, operator or system.", examples=["passenger"])
    ]
    reason: Annotated[str, Meta(description="A code, as `no_drivers_available`.", examples=["changed_plans"])]
    cancelled_at: Annotated[datetime, Meta(description="When.")]


class RideReassigning(RideEvent, frozen=True, kw_only=True, tag="ride.reassigning"):
    """The driver gave the ride up, and another is looked for: `round` is the new one."""

    rider_id: RiderId
    previous_driver_id: Annotated[UUID, Meta(description="Who gave it up, and is not offered it again.")]
    reason: Annotated[str, Meta(description="A code.", examples=["vehicle_problem"])]
    pickup: Annotated[Point, Meta(description="Where from.")]
    deadline_at: Annotated[datetime, Meta(description="Until when a driver is looked for now.")]
