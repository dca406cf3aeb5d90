"""The end of a search: events, metrics and driver locks after a match, a timeout or a cancellation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from prometheus_client import Counter, Histogram

from catraca.domains import location
from catraca.domains.matching.candidates.store import last_search
from catraca.domains.rides import LockedRide, Ride
from catraca.events import DriverAccepted, MatchingTimeout, NoDriversAvailable, RideMatched
from catraca.events.rides import Point
from catraca.platform.database import Db, outbox
from catraca.platform.geo import Place, estimate_trip
from catraca.platform.redis_client import RedisClient

# Longer than most rides. The offer in PostgreSQL reserves the driver; this lock only saves other rides a try.
RIDE_LEASE = timedelta(hours=1)
MAX_LISTED_DRIVERS = 20

ENDED_SEARCHES = Counter("catraca_matching_ends_total", "Searches that ended, by reason.", ["reason"])
MATCH_SECONDS = Histogram(
    "catraca_matching_match_seconds",
    "Time from the start of a search to the acceptance.",
    buckets=(0.1, 0.5, 1, 2, 5, 10, 20, 40, 60, 120, 300),
)


@dataclass(frozen=True, slots=True)
class Match:
    """An acceptance, its ride as it was locked after it, and when the search had begun."""

    event: DriverAccepted
    locked: LockedRide
    started_at: datetime
    trace: str | None

    @property
    def is_current(self) -> bool:
        """False if the ride has changed since, for example because the driver gave it up."""
        return _is_current(self.locked.ride, self.event)


async def confirm_matches(db: Db, redis: RedisClient, matches: Sequence[Match]) -> list[list[UUID]]:
    """Lock each driver for the ride, release all other drivers, and publish the matches.

    Skips rides that have changed since. Returns the drivers that lost their offer, for each ride.
    """
    current = [match for match in matches if match.is_current]
    if not current:
        return []
    driven = {match.event.driver_id: match.event.ride_id for match in current}
    await location.reserve_drivers(db, redis, driven, ttl=RIDE_LEASE)
    released = [await release_drivers(redis, match.locked, but=match.event.driver_id) for match in current]
    places = await location.last_places(db, redis, list(driven))
    await outbox.record_traced(
        db, [(_ride_matched(match, places.get(match.event.driver_id)), match.trace) for match in current]
    )
    waited = [match.event.accepted_at - match.started_at for match in current]
    db.after_commit(lambda: _count_matches(waited))
    return released


def _ride_matched(match: Match, place: Place | None) -> RideMatched:
    """`place` is the driver's last known place."""
    ride = match.locked.ride
    way = None if place is None else estimate_trip(place, Place(ride.pickup_lat, ride.pickup_lon))
    return RideMatched(
        ride_id=ride.id,
        round=ride.round,
        rider_id=ride.passenger_id,
        driver_id=match.event.driver_id,
        pickup=_rough_pickup(ride),
        started_at=match.started_at,
        matched_at=match.event.accepted_at,
        eta_seconds=way and way.duration_seconds,
        pickup_distance_meters=way and way.distance_meters,
    )


def _is_current(ride: Ride, event: DriverAccepted) -> bool:
    return ride.is_driven and ride.round == event.round and ride.accepted_driver_id == event.driver_id


async def release_drivers(redis: RedisClient, locked: LockedRide, *, but: UUID | None = None) -> list[UUID]:
    """Release the locks of all drivers the ride was offered to; locks of other rides stay.

    Returns the drivers whose offer was canceled: they are available again without an event of their own.
    """
    await location.release_drivers(
        redis, [one for one in locked.answers if one != but], ride_id=locked.ride.id
    )
    return [one for one, response in locked.answers.items() if response == "CANCELED"]


async def publish_end(db: Db, ended: LockedRide, *, started_at: datetime) -> None:
    """Publish `matching.timeout` if an offer was open to the end, else `matching.no_drivers_available`."""
    ride = ended.ride
    searches, radius_meters = await last_search(db, ride.id, ride.round)
    fields: dict[str, Any] = {
        "ride_id": ride.id,
        "round": ride.round,
        "rider_id": ride.passenger_id,
        "pickup": _rough_pickup(ride),
        "started_at": started_at,
        "timeout_at": ride.updated_at,
        "total_attempts": len(ended.round_offers),
        "searches": searches,
        "rejected_drivers": ended.drivers_with("REJECTED", limit=MAX_LISTED_DRIVERS, only_this_round=True),
        "timeout_drivers": ended.drivers_with("EXPIRED", limit=MAX_LISTED_DRIVERS, only_this_round=True),
        "search_radius_km": radius_meters / 1000,
    }
    if ended.offered_to_the_end:
        event = MatchingTimeout(**fields, reason="nobody_accepted")
    else:
        event = NoDriversAvailable(**fields, reason="no_drivers_in_area")
    await outbox.record(db, event)
    db.after_commit(lambda: ENDED_SEARCHES.labels(event.reason).inc())


def _rough_pickup(ride: Ride) -> Point:
    rough = ride.blurred()
    return Point(rough.pickup_lat, rough.pickup_lon)


def _count_matches(waited: Sequence[timedelta]) -> None:
    for one in waited:
        ENDED_SEARCHES.labels("matched").inc()
        MATCH_SECONDS.observe(max(0.0, one.total_seconds()))
