"""Request a ride."""

import math
from datetime import timedelta

from catraca.domains.fares import Tariff, fare_cents, tariff_with
from catraca.domains.people import UserId
from catraca.domains.rides.errors import RideAlreadyOpen, RideRequestsPaused
from catraca.domains.rides.model import CancellationRule, Ride, RideId
from catraca.domains.rides.requests import store
from catraca.domains.rides.requests.model import RideRequest
from catraca.domains.rides.search.service import update_timer
from catraca.events import RideRequested
from catraca.events.rides import Point
from catraca.platform.database import Db, outbox
from catraca.platform.errors import Busy
from catraca.platform.geo import Trip, estimate_trip
from catraca.platform.ids import new_id


async def request_ride(
    db: Db,
    request: RideRequest,
    *,
    passenger_id: UserId,
    tariff: Tariff,
    search_timeout: timedelta,
    cancellations: CancellationRule,
    ride_id: RideId | None = None,
) -> Ride:
    """Create a ride. A passenger has one unfinished ride at a time: a second request is refused.

    After many cancellations by the passenger, also a request during the pause is refused, of any caller.
    """
    ride = await store.insert_ride(
        db,
        ride_id or RideId(new_id()),
        request,
        passenger_id=passenger_id,
        trip=_trip(request),
        fare_cents=quote_fare(request, tariff),
        search_timeout=search_timeout,
        cancellations=cancellations,
    )
    if ride is None:
        await refuse_request(db, passenger_id, cancellations=cancellations)
        raise Busy  # the other ride, or the pause, ended meanwhile
    await outbox.record(db, _requested(ride))
    await update_timer(db, ride)
    return ride


async def refuse_request(db: Db, passenger_id: UserId, *, cancellations: CancellationRule) -> None:
    """Raise the refusal if the passenger has an unfinished ride, or has to pause after cancellations."""
    obstacle = await store.read_obstacle(db, passenger_id, cancellations)
    if obstacle.unfinished_id is not None:
        raise RideAlreadyOpen(ride_id=obstacle.unfinished_id)
    if obstacle.pause_seconds > 0:
        raise RideRequestsPaused(
            cancellations=obstacle.cancellations, retry_after_seconds=math.ceil(obstacle.pause_seconds)
        )


def quote_fare(request: RideRequest, tariff: Tariff) -> int | None:
    """Return the fare, by the community's prices if it has its own.

    Without a destination: the minimum for a community's ride, else None.
    """
    if request.community is not None:
        tariff = tariff_with(request.prices, tariff)
    trip = _trip(request)
    if trip is None:
        return None if request.community is None else tariff.minimum_cents
    return fare_cents(tariff, trip)


def _trip(request: RideRequest) -> Trip | None:
    return None if request.dropoff is None else estimate_trip(request.pickup, request.dropoff)


def _requested(ride: Ride) -> RideRequested:
    dropoff = None
    if ride.dropoff_lat is not None and ride.dropoff_lon is not None:
        dropoff = Point(ride.dropoff_lat, ride.dropoff_lon)
    return RideRequested(
        ride_id=ride.id,
        round=ride.round,
        rider_id=ride.passenger_id,
        pickup=Point(ride.pickup_lat, ride.pickup_lon),
        dropoff=dropoff,
        estimated_fare_cents=ride.estimated_fare_cents,
        deadline_at=ride.deadline_at,
    )
