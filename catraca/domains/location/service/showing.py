"""Shows where a ride's driver is: to its passenger as it comes, and to its parties when they ask."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from prometheus_client import Counter, Histogram

from catraca.domains import rides
from catraca.domains.location.errors import RideNotUnderWay
from catraca.domains.location.model import Ping, ShownPosition
from catraca.domains.location.service.searching import last_ping
from catraca.events import DriverUpdated
from catraca.platform.clock import now
from catraca.platform.database import Db
from catraca.platform.redis_client import RedisClient

TRACKING_DELAY = Histogram(
    "catraca_tracking_delay_seconds",
    "From a ping of a driver on a ride to where it can be shown.",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5),
)
POSITIONS = Counter(
    "catraca_tracking_positions_total", "Positions of drivers on a ride by what became of them.", ["outcome"]
)

# Hands positions to whoever is connected to the passengers; what it cannot hand over now, it drops.
Show = Callable[[Sequence[ShownPosition]], Awaitable[None]]


async def show_positions(db: Db, updates: Sequence[DriverUpdated], show: Show) -> None:
    """Show each driver's newest to the passenger of the ride they are on now, as far as it is still news.

    One statement for all of them says who that is. It finds nobody who only holds an offer, nobody whose
    ride has ended, and nothing from before the driver had accepted.
    """
    newest = _newest_of_each(updates)
    driven = await rides.driven_rides(db, [(one.ride_id, one.driver_id) for one in newest])
    at = now()
    shown: list[ShownPosition] = []
    stale = 0
    for update in newest:
        ride = driven.get((update.ride_id, update.driver_id))
        if ride is None or update.timestamp < ride.accepted_at:
            continue
        position = _position(update, ride.passenger_id)
        if position.is_stale(at):
            stale += 1
            continue
        shown.append(position)
        TRACKING_DELAY.observe(max(0.0, (at - update.timestamp).total_seconds()))
    POSITIONS.labels("shown").inc(len(shown))
    POSITIONS.labels("stale").inc(stale)
    POSITIONS.labels("superseded").inc(len(updates) - len(newest))
    POSITIONS.labels("not_driven").inc(len(newest) - len(shown) - stale)
    if shown:
        await show(shown)


def _newest_of_each(updates: Iterable[DriverUpdated]) -> list[DriverUpdated]:
    newest: dict[UUID, DriverUpdated] = {}
    for one in updates:
        known = newest.get(one.driver_id)
        if known is None or (one.recorded_at, one.timestamp) >= (known.recorded_at, known.timestamp):
            newest[one.driver_id] = one
    return list(newest.values())


def _position(update: DriverUpdated, passenger_id: UUID) -> ShownPosition:
    return ShownPosition(
        ride_id=update.ride_id,
        passenger_id=passenger_id,
        driver_id=update.driver_id,
        lat=update.lat,
        lng=update.lng,
        updated_at=update.recorded_at,
        heading_degrees=update.heading_degrees,
        speed_mps=update.speed_mps,
        taken_at=update.timestamp,
    )


async def read_position(
    db: Db, redis: RedisClient, ride_id: UUID, *, caller_id: UUID, sees_all: bool, fresh: timedelta
) -> Ping | None:
    """Where the driver of a ride under way is, to its parties; None where nobody has known for `fresh`."""
    ride = await rides.read_own_ride(db, ride_id, caller_id=caller_id, sees_all=sees_all)
    if not ride.is_driven:
        raise RideNotUnderWay(ride_status=ride.status)
    return await driver_of(db, redis, ride, fresh=fresh)


async def driver_of(db: Db, redis: RedisClient, ride: rides.Ride, *, fresh: timedelta) -> Ping | None:
    """The last that is known of the driver of a ride under way, unless it is older than `fresh`."""
    assert ride.accepted_driver_id is not None, "somebody drives it"
    ping = await last_ping(db, redis, ride.accepted_driver_id)
    return ping if ping is not None and now() - ping.at <= fresh else None
