"""Events of rides, from the request to the end."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from catraca.platform.event import Event

Round = Annotated[int, Meta(description="Number of the search, from 1; events of older rounds are outdated.")]
RiderId = Annotated[UUID, Meta(description="The passenger.")]
DriverId = Annotated[UUID, Meta(description="The driver.")]
FareCents = Annotated[int, Meta(description="In hundredths of the currency.", examples=[2550])]


class Point(msgspec.Struct, frozen=True):
    """Degrees, WGS 84."""

    lat: Annotated[float, Meta(examples=[-23.55])]
    lng: Annotated[float, Meta(examples=[-46.63])]


class RideEvent(Event, frozen=True, kw_only=True):
    """The base of all events of a ride."""

    exchange = "rides.events"
    about = "ride_id"

    ride_id: UUID
    round: Round


class RideRequested(RideEvent, frozen=True, kw_only=True, tag="ride.requested"):
    """A passenger requested a ride."""

    rider_id: RiderId
    pickup: Annotated[Point, Meta(description="The pickup.")]
    dropoff: Annotated[Point | None, Meta(description="The destination, if known.")] = None
    estimated_fare_cents: Annotated[int | None, Meta(description="The estimated fare.", examples=[2550])] = (
        None
    )
    deadline_at: Annotated[datetime, Meta(description="End of the search for a driver.")]


class ConfirmationExpired(Event, frozen=True, kw_only=True, tag="ride.confirmation_expired"):
    """A passenger did not confirm drivers from elsewhere in time: there is no ride."""

    exchange = "rides.events"
    about = "confirmation_id"

    confirmation_id: Annotated[UUID, Meta(description="The confirmation.")]
    rider_id: RiderId
    expires_at: Annotated[datetime, Meta(description="End of the time to confirm.")]


class RideAccepted(RideEvent, frozen=True, kw_only=True, tag="ride.accepted"):
    """A driver has accepted the ride: at most once per round."""

    driver_id: DriverId
    passenger_id: RiderId
    offer_id: Annotated[UUID, Meta(description="The offer that was accepted.")]
    accepted_at: Annotated[datetime, Meta(description="Time of the acceptance, by the database's clock.")]
    pickup_lat: Annotated[float, Meta(examples=[-23.55])]
    pickup_lon: Annotated[float, Meta(examples=[-46.63])]


class RideMatched(RideEvent, frozen=True, kw_only=True, tag="ride.matched"):
    """The driver is on the way: an acceptance, for the passenger. At most once per round."""

    rider_id: RiderId
    driver_id: DriverId
    pickup: Annotated[Point, Meta(description="The pickup, rounded to about 100 m.")]
    started_at: Annotated[datetime, Meta(description="Start of the search in this round.")]
    matched_at: Annotated[datetime, Meta(description="Time of the acceptance.")]
    eta_seconds: Annotated[
        int | None,
        Meta(description="Time to the pickup; null if the driver's position is unknown.", examples=[240]),
    ] = None
    pickup_distance_meters: Annotated[
        int | None, Meta(description="Distance to the pickup, by road, estimated.", examples=[1200])
    ] = None


class RideArriving(RideEvent, frozen=True, kw_only=True, tag="ride.arriving"):
    """The driver is at the pickup."""

    rider_id: RiderId
    driver_id: DriverId
    arrived_at: Annotated[datetime, Meta(description="Time of arrival.")]


class RideStarted(RideEvent, frozen=True, kw_only=True, tag="ride.started"):
    """The passenger is in the car."""

    rider_id: RiderId
    driver_id: DriverId
    started_at: Annotated[datetime, Meta(description="Time of the start.")]


class RideCompleted(RideEvent, frozen=True, kw_only=True, tag="ride.completed"):
    """The ride is completed."""

    rider_id: RiderId
    driver_id: DriverId
    fare_cents: FareCents
    completed_by: Annotated[str, Meta(description="driver or operator.", examples=["driver"])] = "driver"
    completed_at: Annotated[datetime, Meta(description="Time of completion.")]


class RidePaid(RideEvent, frozen=True, kw_only=True, tag="ride.paid"):
    """The fare of the ride is paid."""

    rider_id: RiderId
    driver_id: DriverId
    fare_cents: FareCents
    paid_at: Annotated[datetime, Meta(description="Time of the payment.")]


class RidePaymentExpired(RideEvent, frozen=True, kw_only=True, tag="ride.payment_expired"):
    """The fare was not paid in time. It can still be paid."""

    rider_id: RiderId
    driver_id: DriverId
    fare_cents: FareCents
    expired_at: Annotated[datetime, Meta(description="Time of the event.")]


class RideCancelled(RideEvent, frozen=True, kw_only=True, tag="ride.cancelled"):
    """The ride was canceled, or its search ended without a driver."""

    rider_id: RiderId
    driver_id: Annotated[UUID | None, Meta(description="The accepted driver, if any.")] = None
    cancelled_by: Annotated[
        str, Meta(description="passenger, driver, operator or system.", examples=["passenger"])
    ]
    reason: Annotated[str, Meta(description="A code, as `no_drivers_available`.", examples=["changed_plans"])]
    cancelled_at: Annotated[datetime, Meta(description="Time of cancellation.")]


class RideFlagged(Event, frozen=True, kw_only=True, tag="ride.flagged"):
    """An operator should look at the ride: at most once for each ride and kind."""

    exchange = "rides.events"
    about = "flag_id"

    flag_id: Annotated[UUID, Meta(description="The flag.")]
    ride_id: UUID
    kind: Annotated[
        str,
        Meta(description="takes_too_long, distance_cut or ended_too_soon.", examples=["takes_too_long"]),
    ]
    measured: Annotated[int, Meta(description="Metres for distance_cut, else seconds.", examples=[21600])]
    allowed: Annotated[
        int | None, Meta(description="The limit, in the same unit; null for takes_too_long.")
    ] = None
    flagged_at: Annotated[datetime, Meta(description="Time of the flag.")]


class RideReassigning(RideEvent, frozen=True, kw_only=True, tag="ride.reassigning"):
    """The driver gave the ride up, and a new search starts: `round` is the new round."""

    rider_id: RiderId
    previous_driver_id: Annotated[
        UUID, Meta(description="The driver who gave it up; gets no further offer of it.")
    ]
    reason: Annotated[str, Meta(description="A code.", examples=["vehicle_problem"])]
    pickup: Annotated[Point, Meta(description="The pickup.")]
    deadline_at: Annotated[datetime, Meta(description="End of the new search.")]
