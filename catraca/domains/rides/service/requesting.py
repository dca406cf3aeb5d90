"""Asking for a ride."""

from datetime import timedelta
from uuid import UUID

from catraca.domains.fares import Tariff, fare_cents, tariff_with
from catraca.domains.people import UserId
from catraca.domains.rides.errors import RideAlreadyOpen
from catraca.domains.rides.model import Belonging, Ride, RideId, RideRequest
from catraca.domains.rides.service.due import set_due
from catraca.domains.rides.service.telling import pickup_of
from catraca.domains.rides.store import rides as store
from catraca.events import RideRequested
from catraca.events.rides import Point
from catraca.platform.database import Db, outbox
from catraca.platform.errors import Busy
from catraca.platform.geo import Trip, estimate_trip
from catraca.platform.ids import new_id


async def request_ride(
    db: Db,
    asked: RideRequest,
    *,
    passenger_id: UserId,
    tariff: Tariff,
    search: timedelta,
    ride_id: RideId | None = None,
    asked_price_cents: int | None = None,
    belongs: Belonging | None = None,
    confirmation_id: UUID | None = None,
) -> Ride:
    """Open a ride; a driver is looked for during `search`. One unfinished ride a passenger, never two.

    A community's ride is charged by its prices; to nowhere in particular, that is their minimum at first.
    """
    trip = None if asked.dropoff is None else estimate_trip(asked.pickup, asked.dropoff)
    ride = await store.insert_ride(
        db,
        ride_id or RideId(new_id()),
        asked,
        passenger_id=passenger_id,
        trip=trip,
        fare_cents=quote_fare(trip, tariff, belongs),
        search=search,
        belongs=belongs,
        asked_price_cents=asked_price_cents,
        confirmation_id=confirmation_id,
    )
    if ride is None:
        await refuse_second_ride(db, passenger_id)
        raise Busy  # it ended this moment
    await outbox.record(db, _requested(ride))
    await set_due(db, ride)
    return ride


async def refuse_second_ride(db: Db, passenger_id: UserId) -> None:
    open_ride_id = await store.unfinished_ride_of(db, passenger_id)
    if open_ride_id is not None:
        raise RideAlreadyOpen(ride_id=open_ride_id)


def quote_fare(trip: Trip | None, tariff: Tariff, belongs: Belonging | None) -> int | None:
    if belongs is not None:
        tariff = tariff_with(belongs.prices, tariff)
    if trip is None:
        return None if belongs is None else tariff.minimum_cents
    return fare_cents(tariff, trip)


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
