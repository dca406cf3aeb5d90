"""What follows from the end of a search: the lock becomes the ride's, or goes; the passenger hears of it."""

from datetime import timedelta
from uuid import UUID

from catraca.domains import location
from catraca.domains.matching.service import figures, telling
from catraca.domains.matching.service.advancing import Step
from catraca.domains.rides import HeldRide, Ride
from catraca.events import DriverAccepted, RideMatched
from catraca.platform.database import Db, after_commit, outbox
from catraca.platform.geo import Place, estimate_trip
from catraca.platform.redis_client import RedisClient

# Longer than most rides. What keeps a driver is the offer in PostgreSQL; this only saves others the asking.
RIDE_LEASE = timedelta(hours=1)


async def settle_match(db: Db, redis: RedisClient, event: DriverAccepted, step: Step) -> list[UUID]:
    """The driver's lock becomes the ride's, everybody else asked is let go, and the match is told.

    Unless the ride has moved on: a driver who gave it up since is not on the way. Answers who lost the ride
    to this driver, and so came free.
    """
    ride, matching = step.held.ride, step.matching
    if not _is_still_theirs(ride, event):
        return []
    await location.take_driver(db, redis, event.driver_id, ride_id=ride.id, ttl=RIDE_LEASE)
    freed = await let_go_of_all(redis, step.held, but=event.driver_id)
    pickup = Place(ride.pickup_lat, ride.pickup_lon)
    place = await location.last_place(db, redis, event.driver_id)
    way = None if place is None else estimate_trip(place, pickup)
    started_at = matching.started_at if matching and matching.round == ride.round else ride.created_at
    await outbox.record(
        db,
        RideMatched(
            ride_id=ride.id,
            round=ride.round,
            rider_id=ride.passenger_id,
            driver_id=event.driver_id,
            pickup=telling.rough_pickup(ride),
            started_at=started_at,
            matched_at=event.accepted_at,
            eta_seconds=way and way.duration_seconds,
            pickup_distance_meters=way and way.distance_meters,
        ),
    )
    waited = event.accepted_at - started_at
    after_commit(db, lambda: figures.count_match(waited))
    return freed


def _is_still_theirs(ride: Ride, event: DriverAccepted) -> bool:
    return ride.is_driven and ride.round == event.round and ride.accepted_driver_id == event.driver_id


async def let_go_of_all(redis: RedisClient, held: HeldRide, *, but: UUID | None = None) -> list[UUID]:
    """Release the locks of everybody whom the ride was offered to and does not hold.

    Answers whose offer ended by no act of theirs, and who so came free without a word.
    """
    await location.let_go(redis, [one for one in held.answers if one != but], ride_id=held.ride.id)
    return [one for one, response in held.answers.items() if response == "CANCELED"]
