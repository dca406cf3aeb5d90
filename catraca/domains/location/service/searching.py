"""Who is near: the map in Redis proposes, PostgreSQL says who is at work and whom nobody holds."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from prometheus_client import Counter

from catraca.domains import people, rides
from catraca.domains.fares import Place, straight_line_meters
from catraca.domains.location.model import MAX_LATITUDE, DriverId, Found, Ping, Source, cells_around
from catraca.domains.location.store import index, presence
from catraca.platform.clock import now
from catraca.platform.database import Db
from catraca.platform.redis_client import RedisAway, RedisClient

SEARCHES = Counter("catraca_location_searches_total", "Searches for drivers near by.", ["source"])
# Where drivers are many, a part of the circle is enough; it is looked at first.
FIRST_PART = 4
# How many more than asked for are looked at first, and how much more each time these were not enough.
SPARE = 16
GROWTH = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    place: Place
    radius_meters: float
    limit: int
    # Also those who are held, or were not heard of lately.
    everybody: bool = False
    fresh: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Near:
    found: Found
    available: bool


async def find_nearby(db: Db, redis: RedisClient, search: Search) -> tuple[Source, list[Near]]:
    """The nearest drivers, from the map; where Redis is away or has forgotten it, from PostgreSQL."""
    source: Source = "redis"
    try:
        near = await _find(db, redis, search)
    except RedisAway:
        source, near = "database", await _find(db, None, search)
    SEARCHES.labels(source).inc()
    return source, near


async def _find(db: Db, redis: RedisClient | None, search: Search) -> list[Near]:
    if abs(search.place.lat) > MAX_LATITUDE:
        return []  # nobody can be on the map there
    chosen: list[Near] = []
    async for found in _nearest_first(db, redis, search):
        chosen += await _sift(db, found, search)
        if len(chosen) >= search.limit:
            break
    return chosen[: search.limit]


async def _nearest_first(db: Db, redis: RedisClient | None, search: Search) -> AsyncIterator[Sequence[Found]]:
    """Further and further out, each driver once, until there is nobody left within the radius."""
    known: set[DriverId] = set()
    radius_meters, count = search.radius_meters / FIRST_PART, 2 * search.limit + SPARE
    while True:
        looked_at = await _look(db, redis, search, radius_meters, count)
        if len(looked_at) < search.limit and radius_meters < search.radius_meters:
            radius_meters = search.radius_meters  # too few, even if all of them are free
            continue
        found = [_found(one, ping, search.place) for one, ping in looked_at if one not in known]
        yield sorted(found, key=lambda one: one.distance_meters)
        known.update(one.driver_id for one in found)
        if len(looked_at) >= count:
            if count >= index.MOST_AT_ONCE:
                return
            count = min(count * GROWTH, index.MOST_AT_ONCE)
        elif radius_meters < search.radius_meters:
            radius_meters = search.radius_meters
        else:
            return


async def _look(
    db: Db, redis: RedisClient | None, search: Search, radius_meters: float, count: int
) -> list[tuple[DriverId, Ping]]:
    if redis is not None:
        return await index.nearest(redis, search.place, radius_meters=radius_meters, limit=count)
    return await presence.nearest(
        db,
        search.place,
        cells=cells_around(search.place, radius_meters),
        radius_meters=radius_meters,
        fresh=None if search.everybody else search.fresh,
        limit=count,
    )


async def _sift(db: Db, found: Sequence[Found], search: Search) -> list[Near]:
    """Those who are at work; of these, unless everybody is asked for, only whom a ride could have."""
    if not found:
        return []
    ids = [one.driver_id for one in found]
    online = await presence.online_among(db, ids)
    fit = await people.who_may_drive(db, ids)
    busy = await rides.busy_drivers(db, ids)
    since = now() - search.fresh
    near = [
        Near(one, one.driver_id in fit and one.driver_id not in busy and one.ping.at >= since)
        for one in found
        if one.driver_id in online
    ]
    return near if search.everybody else [one for one in near if one.available]


def _found(driver_id: DriverId, ping: Ping, place: Place) -> Found:
    return Found(driver_id, ping, straight_line_meters(place, ping.place))
