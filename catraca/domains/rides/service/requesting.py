"""Asking for a ride."""

from datetime import timedelta

from catraca.domains.fares import Tariff, estimate_trip, fare_cents
from catraca.domains.people import UserId
from catraca.domains.rides.errors import RideAlreadyOpen
from catraca.domains.rides.model import Ride, RideId, RideRequest
from catraca.domains.rides.service.due import set_due
from catraca.domains.rides.service.telling import pickup_of
from catraca.domains.rides.store import rides as store
from catraca.events import RideRequested
from catraca.events.rides import Point
from catraca.platform import outbox
from catraca.platform.database import Db
from catraca.platform.errors import Busy
from catraca.platform.ids import new_id


async def request_ride(
    db: Db, asked: RideRequest, *, passenger_id: UserId, tariff: Tariff, search: timedelta
) -> Ride:
    """Open a ride; a driver is looked for during `search`. One unfinished ride a passenger, never two."""
    trip = None if asked.dropoff is None else estimate_trip(asked.pickup, asked.dropoff)
    ride = await store.insert_ride(
        db,
        RideId(new_id()),
        asked,
        passenger_id=passenger_id,
        trip=trip,
        fare_cents=None if trip is None else fare_cents(tariff, trip),
        search=search,
    )
    if ride is None:
        open_ride_id = await store.unfinished_ride_of(db, passenger_id)
        if open_ride_id is None:  # it ended this moment
            raise Busy
        raise RideAlreadyOpen(ride_id=open_ride_id)
    await outbox.record(db, _requested(ride))
    await set_due(db, ride)
    return ride


def _requested(ride: Ride) -> RideRequested:
    dropoff = None
    if ride.dropoff_lat is not None and ride.dropoff_lon is not None:
        dropoff = Point(ride.dropoff_lat, ride.dropoff_lon)
    return RideRequested(
        ride_id=ride.id,
        round=ride.round,
        rider_id=ride.passenger_id,
        pickup=pickup_of(ride),
        dropoff=dropoff,
        estimated_fare_cents=ride.estimated_fare_cents,
        deadline_at=ride.deadline_at,
    )
