"""Positions of drivers on a ride: published about once a second, sent to the passenger, read on request."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from prometheus_client import Counter, Histogram

from catraca.domains import rides
from catraca.domains.location import store as index
from catraca.domains.location.errors import RideNotUnderWay
from catraca.domains.location.model import DriverId, Ping
from catraca.domains.location.positions.model import ShownPosition
from catraca.domains.location.presence import store as presence
from catraca.events import DriverUpdated
from catraca.platform.bus import Headers, Message
from catraca.platform.clock import now
from catraca.platform.database import Db, Transact
from catraca.platform.errors import Refusal
from catraca.platform.event import encode, key_of
from catraca.platform.geo import Place
from catraca.platform.ids import new_id
from catraca.platform.redis_client import RedisAway, RedisClient

# So that a position reaches the passenger's map within a second.
PUBLISH_SECONDS = 0.75
DRIVERS_PER_QUERY = 2000

TRACKING_DELAY = Histogram(
    "catraca_tracking_delay_seconds",
    "Time from the ping of a driver on a ride to its delivery.",
    buckets=(0.1, 0.25, 0.5, 1, 2, 5),
)
POSITIONS = Counter(
    "catraca_tracking_positions_total", "Positions of drivers on a ride by outcome.", ["outcome"]
)

Publish = Callable[[Sequence[Message]], Awaitable[None]]
# Sends positions to the passengers' sockets; positions that cannot be sent at once are dropped.
Deliver = Callable[[Sequence[ShownPosition]], Awaitable[None]]


class PositionPublisher:
    """Collects accepted pings, and publishes those of drivers on a ride at an interval.

    Positions that cannot be published are dropped: newer ones follow.
    """

    def __init__(
        self, transact: Transact, publish: Publish, *, every_seconds: float = PUBLISH_SECONDS
    ) -> None:
        self._transact = transact
        self._publish = publish
        self._every_seconds = every_seconds
        self._newest: dict[DriverId, tuple[Ping, datetime]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, pings: Mapping[DriverId, Ping], *, at: datetime) -> None:
        """Replace the drivers' pings that wait to be published; `at` is when the server received them."""
        self._newest.update({driver_id: (ping, at) for driver_id, ping in pings.items()})
        if self._newest and self._task is None:
            # In a context of its own, because it outlives the request that started it.
            self._task = asyncio.create_task(self._run(), context=contextvars.Context())

    async def _run(self) -> None:
        try:
            while self._newest:
                await asyncio.sleep(self._every_seconds)
                newest, self._newest = self._newest, {}
                ids = list(newest)
                for start in range(0, len(ids), DRIVERS_PER_QUERY):
                    chunk = ids[start : start + DRIVERS_PER_QUERY]
                    await self._publish_driving({one: newest[one] for one in chunk})
        finally:
            self._task = None

    async def _publish_driving(self, newest: dict[DriverId, tuple[Ping, datetime]]) -> None:
        try:
            holds = await self._transact(lambda db: rides.busy_drivers(db, newest))
        except Refusal:
            return
        messages = [
            _message(DriverId(driver_id), hold.ride_id, *newest[DriverId(driver_id)])
            for driver_id, hold in holds.items()
            if hold.driving
        ]
        if messages:
            await self._publish(messages)


def _message(driver_id: DriverId, ride_id: UUID, ping: Ping, at: datetime) -> Message:
    event = DriverUpdated(
        driver_id=driver_id,
        ride_id=ride_id,
        lat=ping.place.lat,
        lng=ping.place.lon,
        recorded_at=ping.at,
        accuracy_meters=ping.accuracy_meters,
        speed_mps=ping.speed_mps,
        heading_degrees=ping.heading_degrees,
        timestamp=at,
    )
    return Message(
        id=new_id(),
        exchange=event.exchange,
        key=key_of(DriverUpdated),
        body=encode(event),
        headers=Headers(aggregate_id=driver_id),
    )


async def show_positions(db: Db, updates: Sequence[DriverUpdated], deliver: Deliver) -> None:
    """Deliver each driver's newest position to the passenger of the driver's present ride.

    One query finds the passengers. Dropped are stale positions, and those of drivers who only have an offer,
    whose ride ended, or from before the driver accepted.
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
        position = _shown_position(update, ride.passenger_id)
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
        await deliver(shown)


def _newest_of_each(updates: Iterable[DriverUpdated]) -> list[DriverUpdated]:
    newest: dict[UUID, DriverUpdated] = {}
    for one in updates:
        known = newest.get(one.driver_id)
        if known is None or (one.recorded_at, one.timestamp) >= (known.recorded_at, known.timestamp):
            newest[one.driver_id] = one
    return list(newest.values())


def _shown_position(update: DriverUpdated, passenger_id: UUID) -> ShownPosition:
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


async def last_places(db: Db, redis: RedisClient, driver_ids: Sequence[UUID]) -> dict[UUID, Place]:
    """The last known places of those of these drivers who have one."""
    pings = await _last_pings(db, redis, driver_ids)
    return {driver_id: ping.place for driver_id, ping in pings.items()}


async def read_position(
    db: Db, redis: RedisClient, ride_id: UUID, *, caller_id: UUID, sees_all: bool, fresh: timedelta
) -> Ping | None:
    """The last ping of the driver of a ride under way, for its parties; None if it is older than `fresh`."""
    ride = await rides.read_own_ride(db, ride_id, caller_id=caller_id, sees_all=sees_all)
    if not ride.is_driven:
        raise RideNotUnderWay(ride_status=ride.status)
    return await driver_position(db, redis, ride, fresh=fresh)


async def driver_position(db: Db, redis: RedisClient, ride: rides.Ride, *, fresh: timedelta) -> Ping | None:
    """The last ping of the driver of a ride under way; None if it is older than `fresh`."""
    assert ride.accepted_driver_id is not None, "a ride under way has a driver"
    pings = await _last_pings(db, redis, [ride.accepted_driver_id])
    ping = pings.get(ride.accepted_driver_id)
    return ping if ping is not None and now() - ping.at <= fresh else None


async def _last_pings(db: Db, redis: RedisClient, driver_ids: Sequence[UUID]) -> dict[UUID, Ping]:
    """From Redis, with speed and heading; while Redis is down from PostgreSQL, without them."""
    wanted = [DriverId(one) for one in driver_ids]
    try:
        seen = await index.last_seen(redis, wanted)
    except RedisAway:
        rows = await presence.read_presence(db, wanted)
        return {one: row.last for one, row in rows.items() if row.last is not None}
    return {one: known.ping for one, known in seen.items() if known.ping is not None}
