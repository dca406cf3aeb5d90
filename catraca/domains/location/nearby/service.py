"""Search for drivers: the Redis index proposes, PostgreSQL decides which are online and available.

While Redis is down, or has lost the index, positions come from PostgreSQL too; they are some seconds old.
"""

from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from uuid import UUID

from prometheus_client import Counter

from catraca.domains.location import store as index
from catraca.domains.location.model import MAX_LATITUDE, DriverId, Ping, Source
from catraca.domains.location.nearby import store
from catraca.domains.location.nearby.model import DriverPosition, NearbyDriver, Search, Unavailable
from catraca.domains.location.presence import store as presence
from catraca.domains.location.store import MAX_DRIVERS_PER_CALL
from catraca.platform.clock import now
from catraca.platform.database import Db
from catraca.platform.geo import Place, cells_around, straight_line_meters
from catraca.platform.redis_client import RedisAway, RedisClient

SEARCHES = Counter("catraca_location_searches_total", "Searches for nearby drivers.", ["source"])
# The first search is within a part of the radius, which is enough where drivers are many.
FIRST_PART = 4
# How many more drivers than the limit are read first, and the growth while they are too few. A small limit
# has a small spare: most searches for one driver find one among the nearest six.
SPARE = 16
MOST_TIMES = 6
GROWTH = 4
MAX_MEMBERS = 100_000


async def find_nearby(db: Db, redis: RedisClient, search: Search) -> tuple[Source, list[NearbyDriver]]:
    """The nearest drivers, at most `search.limit`, and where their positions were read."""
    source, drivers = await scan_nearby(db, redis, search)
    found = [one for one in drivers if search.include_unavailable or one.is_available]
    return source, found[: search.limit]


async def scan_nearby(
    db: Db, redis: RedisClient, search: Search, *, excluded: AbstractSet[UUID] = frozenset()
) -> tuple[Source, list[NearbyDriver]]:
    """All online drivers from the place outwards, until `search.limit` available ones are among them.

    Excluded drivers are in the answer and do not count for the limit.
    """
    source: Source = "redis"
    try:
        drivers = await _scan(db, redis, search, excluded)
    except RedisAway:
        source, drivers = "database", await _scan(db, None, search, excluded)
    SEARCHES.labels(source).inc()
    return source, drivers


async def _scan(
    db: Db, redis: RedisClient | None, search: Search, excluded: AbstractSet[UUID]
) -> list[NearbyDriver]:
    if abs(search.place.lat) > MAX_LATITUDE:
        return []  # Redis cannot index a driver there.
    members = None
    if search.community_ids is not None:
        members = await store.members_of(db, search.community_ids, limit=MAX_MEMBERS)
    if members is None or search.include_unavailable:
        batches = _nearest_drivers(db, redis, search)
    else:
        batches = _nearest_members(db, redis, search, members)
    drivers: list[NearbyDriver] = []
    count = 0
    async for batch in batches:
        checked = await _check(db, batch, search, members)
        drivers += checked
        count += sum(
            search.include_unavailable or (one.is_available and one.driver_id not in excluded)
            for one in checked
        )
        if count >= search.limit:
            break
    return drivers


async def _nearest_drivers(
    db: Db, redis: RedisClient | None, search: Search
) -> AsyncIterator[Sequence[DriverPosition]]:
    """All drivers within the radius, from the place outwards, each once."""
    known: set[DriverId] = set()
    radius_meters, count = search.radius_meters / FIRST_PART, _batch_size(search)
    while True:
        nearest = await _nearest_pings(db, redis, search, radius_meters, count)
        found = [_position(one, ping, search.place) for one, ping in nearest.pings if one not in known]
        yield sorted(found, key=lambda one: one.distance_meters)
        known.update(one.driver_id for one in found)
        if len(nearest.pings) < count:
            if nearest.is_wide:
                return
            radius_meters = search.radius_meters
        elif count >= MAX_DRIVERS_PER_CALL:
            return
        else:
            count = min(count * GROWTH, MAX_DRIVERS_PER_CALL)


async def _nearest_pings(
    db: Db, redis: RedisClient | None, search: Search, radius_meters: float, count: int
) -> index.Nearest:
    """Search the whole radius if the given one has too few drivers, even if all of them are available."""
    if redis is not None:
        return await index.nearest_pings(
            redis,
            search.place,
            narrow_meters=radius_meters,
            wide_meters=search.radius_meters,
            enough=search.limit,
            limit=count,
        )
    pings = await _stored_pings(db, search, radius_meters, count)
    if len(pings) >= search.limit or radius_meters == search.radius_meters:
        return index.Nearest(radius_meters == search.radius_meters, pings)
    return index.Nearest(True, await _stored_pings(db, search, search.radius_meters, count))


async def _stored_pings(
    db: Db, search: Search, radius_meters: float, count: int
) -> list[tuple[DriverId, Ping]]:
    return await presence.nearest_pings(
        db,
        search.place,
        cells=cells_around(search.place, radius_meters),
        radius_meters=radius_meters,
        fresh=None if search.include_unavailable else search.fresh,
        limit=count,
    )


async def _nearest_members(
    db: Db, redis: RedisClient | None, search: Search, members: AbstractSet[UUID]
) -> AsyncIterator[Sequence[DriverPosition]]:
    """Members within the radius, from the place outwards: found however many other drivers are nearer."""
    pings = await _last_pings(db, redis, [DriverId(one) for one in members])
    found = [_position(one, ping, search.place) for one, ping in pings.items()]
    near = [one for one in found if one.distance_meters <= search.radius_meters]
    near.sort(key=lambda one: one.distance_meters)
    size = _batch_size(search)
    for start in range(0, len(near), size):
        yield near[start : start + size]


async def _last_pings(
    db: Db, redis: RedisClient | None, driver_ids: Sequence[DriverId]
) -> dict[DriverId, Ping]:
    if redis is not None:
        seen = await index.last_seen(redis, driver_ids)
        return {one: known.ping for one, known in seen.items() if known.ping is not None}
    rows = await presence.read_presence(db, driver_ids)
    return {one: row.last for one, row in rows.items() if row.last is not None}


def _batch_size(search: Search) -> int:
    return min(2 * search.limit + SPARE, MOST_TIMES * search.limit)


def _position(driver_id: DriverId, ping: Ping, place: Place) -> DriverPosition:
    return DriverPosition(driver_id, ping, straight_line_meters(place, ping.place))


async def _check(
    db: Db, found: Sequence[DriverPosition], search: Search, members: AbstractSet[UUID] | None
) -> list[NearbyDriver]:
    """The drivers of these who are online, with the reason why one is unavailable."""
    if not found:
        return []
    online = await store.online_drivers(db, [one.driver_id for one in found])
    since = now() - search.fresh

    def reason(one: DriverPosition) -> Unavailable | None:
        if (unavailable := online[one.driver_id]) is not None:
            return unavailable
        if one.ping.at < since:
            return "stale"
        return "outside_fence" if members is not None and one.driver_id not in members else None

    return [
        NearbyDriver(one.driver_id, one.ping, one.distance_meters, reason(one))
        for one in found
        if one.driver_id in online
    ]
