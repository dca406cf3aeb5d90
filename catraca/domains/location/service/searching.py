"""Who is near: the map in Redis proposes, PostgreSQL says who is at work and whom nobody holds."""

from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from uuid import UUID

from prometheus_client import Counter

from catraca.domains import people, rides
from catraca.domains.communities import CommunityId, Whose
from catraca.domains.location.model import MAX_LATITUDE, DriverId, Found, Ping, Source, cells_around
from catraca.domains.location.store import communities, index, presence
from catraca.platform.clock import now
from catraca.platform.database import Db
from catraca.platform.geo import Place, straight_line_meters
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
    # Only drivers who are in one of these communities, or based in it; None: whoever it is.
    whose: Whose = None
    fresh: timedelta = timedelta(seconds=60)


# Why a driver who is at work could not be asked: on a ride, held by another ride's offer, not allowed, not
# heard of lately, or of no community that is asked.
WhyNot = Literal["driving", "held", "may_not_drive", "stale", "outside_fence"]


@dataclass(frozen=True, slots=True)
class Near:
    found: Found
    why_not: WhyNot | None = None

    @property
    def available(self) -> bool:
        return self.why_not is None


async def find_nearby(db: Db, redis: RedisClient, search: Search) -> tuple[Source, list[Near]]:
    """The nearest drivers, from the map; where Redis is away or has forgotten it, from PostgreSQL."""
    source, seen = await look_around(db, redis, search)
    return source, [one for one in seen if search.everybody or one.available][: search.limit]


async def look_around(
    db: Db, redis: RedisClient, search: Search, *, not_these: AbstractSet[UUID] = frozenset()
) -> tuple[Source, list[Near]]:
    """Everybody at work from here outwards, until `limit` are found who could be asked, or all were seen.

    Whoever is `not_these` is seen and does not count.
    """
    source: Source = "redis"
    try:
        seen = await _look_around(db, redis, search, not_these)
    except RedisAway:
        source, seen = "database", await _look_around(db, None, search, not_these)
    SEARCHES.labels(source).inc()
    return source, seen


async def _look_around(
    db: Db, redis: RedisClient | None, search: Search, not_these: AbstractSet[UUID]
) -> list[Near]:
    if abs(search.place.lat) > MAX_LATITUDE:
        return []  # nobody can be on the map there
    if search.whose is not None and not search.everybody:
        members = await _members(db, search.whose)
        if len(members) < index.MOST_AT_ONCE:  # else there is no way to know the nearest among them
            return await _judge(db, await _within(db, redis, search, members), search, at_home=members)
    seen: list[Near] = []
    count = 0
    async for found in _nearest_first(db, redis, search):
        near = await _judge(db, found, search)
        seen += near
        count += sum(
            search.everybody or (one.available and one.found.driver_id not in not_these) for one in near
        )
        if count >= search.limit:
            break
    return seen


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


async def _members(db: Db, community_ids: AbstractSet[CommunityId]) -> set[DriverId]:
    """The communities' own, at work or not: mostly few, or nobody, however many others are near."""
    inside = await communities.drivers_inside(db, community_ids, limit=index.MOST_AT_ONCE)
    based = await people.drivers_based_in(db, community_ids, limit=index.MOST_AT_ONCE)
    return {*inside, *map(DriverId, based)}


async def _within(
    db: Db, redis: RedisClient | None, search: Search, driver_ids: AbstractSet[DriverId]
) -> list[Found]:
    """Those of the drivers who are within the radius, the nearest first."""
    pings = await _last_pings(db, redis, list(driver_ids)) if driver_ids else {}
    found = [_found(one, ping, search.place) for one, ping in pings.items()]
    near = [one for one in found if one.distance_meters <= search.radius_meters]
    return sorted(near, key=lambda one: one.distance_meters)


async def _last_pings(
    db: Db, redis: RedisClient | None, driver_ids: Sequence[DriverId]
) -> dict[DriverId, Ping]:
    if redis is not None:
        heard = await index.last_heard(redis, driver_ids)
        return {one: known.ping for one, known in heard.items() if known.ping is not None}
    known = await presence.read_presence(db, driver_ids)
    return {one: found.last for one, found in known.items() if found.last is not None}


async def _judge(
    db: Db, found: Sequence[Found], search: Search, *, at_home: AbstractSet[UUID] | None = None
) -> list[Near]:
    """Those who are at work, and what keeps each of them from a ride."""
    if not found:
        return []
    ids = [one.driver_id for one in found]
    online = await presence.online_among(db, ids)
    fit = await people.approved_drivers(db, ids)
    busy = await rides.busy_drivers(db, ids)
    if search.whose is not None and at_home is None:
        at_home = await _at_home_in(db, ids, search.whose)
    since = now() - search.fresh

    def why_not(one: Found) -> WhyNot | None:
        if hold := busy.get(one.driver_id):
            return "driving" if hold.driving else "held"
        if one.driver_id not in fit:
            return "may_not_drive"
        if one.ping.at < since:
            return "stale"
        return "outside_fence" if at_home is not None and one.driver_id not in at_home else None

    return [Near(one, why_not(one)) for one in found if one.driver_id in online]


async def _at_home_in(
    db: Db, driver_ids: Sequence[DriverId], community_ids: AbstractSet[CommunityId]
) -> set[UUID]:
    """Those of the drivers who are in one of these communities, or based in it."""
    inside = await communities.inside_among(db, driver_ids, community_ids)
    return inside | await people.drivers_based_in(db, community_ids, among=driver_ids, limit=len(driver_ids))


def _found(driver_id: DriverId, ping: Ping, place: Place) -> Found:
    return Found(driver_id, ping, straight_line_meters(place, ping.place))


async def last_place(db: Db, redis: RedisClient, driver_id: UUID) -> Place | None:
    """Where a driver was last; None where nobody knows."""
    ping = await last_ping(db, redis, driver_id)
    return ping.place if ping else None


async def last_ping(db: Db, redis: RedisClient, driver_id: UUID) -> Ping | None:
    """The same with its time, and as the map has it with speed and heading."""
    one = DriverId(driver_id)
    try:
        heard = (await index.last_heard(redis, [one])).get(one)
    except RedisAway:
        known = (await presence.read_presence(db, [one])).get(one)
        return known.last if known else None
    return heard.ping if heard else None
