"""The index of online drivers in Redis: their last pings and places, and when each was last seen.

Redis may lose all of it at any time. `COMPLETE_KEY` exists while the index is complete; where it is missing,
Redis was emptied after the last rebuild from PostgreSQL, and every read raises `IndexLost`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import msgspec

from catraca.domains.location.model import DriverId, Ping
from catraca.platform.geo import Place
from catraca.platform.redis_client import RedisAway, RedisClient, Script

COMPLETE_KEY = "catraca:location:whole"
GEO_KEY = "catraca:location:geo"
# Online drivers, scored by when they were last seen, in microseconds of Redis's clock.
SEEN_KEY = "catraca:location:seen"
PINGS_KEY = "catraca:location:pings"
# Leases: the process that rebuilds the index, and the process that patrols.
REBUILD_KEY = "catraca:location:filling"
PATROL_KEY = "catraca:location:patrol"
INDEX_KEYS = (COMPLETE_KEY, GEO_KEY, SEEN_KEY, PINGS_KEY)
# A little below what Lua can unpack.
MAX_DRIVERS_PER_CALL = 4000
# A script must not block Redis for long.
MAX_DRIVERS_PER_WRITE = 500


class IndexLost(RedisAway):
    """Redis answers and the index is not complete: handled like an outage until the rebuild."""


NO_PING = ""
_encode = msgspec.msgpack.Encoder().encode
_decode_nearest = msgspec.msgpack.Decoder(tuple[bool, list[UUID], list[str]]).decode
_decode_unwritten = msgspec.msgpack.Decoder(tuple[list[int], list[tuple[int, str]]]).decode


def write_ping(ping: Ping) -> str:
    """Encode a ping for Redis: seconds, latitude, longitude, accuracy, speed, heading; unknown ones empty."""
    accuracy, speed, heading = ping.accuracy_meters, ping.speed_mps, ping.heading_degrees
    return (
        f"{ping.at.timestamp():.6f} {ping.place.lat!r} {ping.place.lon!r}"
        f" {'' if accuracy is None else f'{accuracy:.1f}'}"
        f" {'' if speed is None else f'{speed:.1f}'}"
        f" {'' if heading is None else f'{heading:.1f}'}"
    )


def read_ping(text: str) -> Ping:
    at, lat, lng, *more = text.split(" ")
    moment = datetime.fromtimestamp(float(at), UTC)
    # Older versions wrote only the first of these.
    return Ping(Place(float(lat), float(lng)), moment, *(float(one) if one else None for one in more))


# Replaces each driver's last ping if that still is the known one; without a new ping, only the time seen.
# Returns the numbers of drivers who are not in the index, and of those with another last ping, and that ping.
APPLY = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local clock = redis.call('TIME')
local at = string.format('%.0f', clock[1] * 1000000 + clock[2])
local drivers, known, pings = unpack(cmsgpack.unpack(ARGV[1]))
local scores = redis.call('ZMSCORE', KEYS[3], unpack(drivers))
local last = redis.call('HMGET', KEYS[4], unpack(drivers))
local seen, written, places, missing, changed = {}, {}, {}, {}, {}
for i, driver in ipairs(drivers) do
  if not scores[i] then
    missing[#missing + 1] = i - 1
  elseif (last[i] or '') ~= known[i] then
    changed[#changed + 1] = {i - 1, last[i] or ''}
  else
    seen[#seen + 1] = at
    seen[#seen + 1] = driver
    if pings[i] ~= '' then
      local lat, lng = string.match(pings[i], ' (%S+) (%S+)')
      written[#written + 1] = driver
      written[#written + 1] = pings[i]
      places[#places + 1] = lng
      places[#places + 1] = lat
      places[#places + 1] = driver
    end
  end
end
if #seen > 0 then redis.call('ZADD', KEYS[3], unpack(seen)) end
if #written > 0 then
  redis.call('HSET', KEYS[4], unpack(written))
  redis.call('GEOADD', KEYS[2], unpack(places))
end
return cmsgpack.pack({missing, changed})
""")


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Drivers who are not in the index, and drivers whose last ping is another one, with that ping."""

    missing: set[DriverId]
    changed: dict[DriverId, str]


async def replace_pings(
    redis: RedisClient, driver_ids: Sequence[DriverId], known: Sequence[str], pings: Sequence[str]
) -> Unwritten:
    """Replace each driver's last ping if that still is the `known` one; `NO_PING`: the driver is only seen.

    `driver_ids` has each driver once, and at most MAX_DRIVERS_PER_WRITE.
    """
    answer = await redis.script(APPLY, INDEX_KEYS, [_encode((driver_ids, known, pings))])
    if answer is None:
        raise IndexLost
    missing, changed = _decode_unwritten(answer)
    return Unwritten({driver_ids[n] for n in missing}, {driver_ids[n]: last for n, last in changed})


# "NX" leaves drivers in the index as they are, because pings arrive during a rebuild.
ADD = Script("""
local clock = redis.call('TIME')
local at = string.format('%.0f', clock[1] * 1000000 + clock[2])
local missing_only = ARGV[1] == 'NX'
for i, one in ipairs(cmsgpack.unpack(ARGV[2])) do
  local driver, ping, lat, lng = unpack(one)
  if not (missing_only and redis.call('ZSCORE', KEYS[3], driver)) then
    redis.call('ZADD', KEYS[3], at, driver)
    if ping ~= '' then
      redis.call('HSET', KEYS[4], driver, ping)
      redis.call('GEOADD', KEYS[2], lng, lat, driver)
    elseif not missing_only then
      redis.call('HDEL', KEYS[4], driver)
      redis.call('ZREM', KEYS[2], driver)
    end
  end
end
""")


async def add_drivers(
    redis: RedisClient, drivers: Mapping[DriverId, Ping | None], *, mode: Literal["NX", "XX"]
) -> None:
    """Add online drivers, as seen now, with their position if known.

    "XX" also removes a driver's earlier position; "NX" skips drivers who are in the index.
    """
    packed = [
        (str(driver_id), write_ping(ping), ping.place.lat, ping.place.lon)
        if ping
        else (str(driver_id), NO_PING, 0, 0)
        for driver_id, ping in drivers.items()
    ]
    await redis.script(ADD, INDEX_KEYS, [mode, _encode(packed)])


async def remove_drivers(redis: RedisClient, driver_ids: Iterable[UUID]) -> None:
    names = [str(driver_id) for driver_id in driver_ids]

    async def remove(client: Any) -> None:
        async with client.pipeline(transaction=True) as pipeline:
            pipeline.zrem(SEEN_KEY, *names)
            pipeline.hdel(PINGS_KEY, *names)
            pipeline.zrem(GEO_KEY, *names)
            await pipeline.execute()

    if names:
        await redis.run(remove)


# Searches the wide radius if the narrow one has too few drivers. Packed: redis-py reads long lists slowly.
NEAREST = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local lng, lat, narrow, wide, enough, limit = unpack(ARGV)
local function search(radius)
  return redis.call('GEOSEARCH', KEYS[2], 'FROMLONLAT', lng, lat, 'BYRADIUS', radius, 'm',
    'ASC', 'COUNT', limit)
end
local found, is_wide = search(narrow), narrow == wide
if #found < tonumber(enough) and not is_wide then found, is_wide = search(wide), true end
local pings = #found > 0 and redis.call('HMGET', KEYS[4], unpack(found)) or {}
for i = 1, #found do pings[i] = pings[i] or '' end
return cmsgpack.pack({is_wide, found, pings})
""")


@dataclass(frozen=True, slots=True)
class Nearest:
    """The drivers nearest to a place, and whether the wide radius was searched."""

    is_wide: bool
    pings: list[tuple[DriverId, Ping]]


async def nearest_pings(
    redis: RedisClient, place: Place, *, narrow_meters: float, wide_meters: float, enough: int, limit: int
) -> Nearest:
    """Drivers within the narrow radius; if these are fewer than `enough`, within the wide one.

    Nearest first to a metre; `limit` is at most MAX_DRIVERS_PER_CALL.
    """
    where = (place.lon, place.lat, narrow_meters, wide_meters, enough, limit)
    answer = await redis.script(NEAREST, INDEX_KEYS, where)
    if answer is None:
        raise IndexLost
    is_wide, found, pings = _decode_nearest(answer)
    return Nearest(
        is_wide,
        [(DriverId(one), read_ping(ping)) for one, ping in zip(found, pings, strict=True) if ping != NO_PING],
    )


LAST = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local clock = redis.call('TIME')
local drivers = cmsgpack.unpack(ARGV[1])
local seen = redis.call('ZMSCORE', KEYS[3], unpack(drivers))
local silences = {}
for i, score in ipairs(seen) do
  silences[i] = score and string.format('%.0f', clock[1] * 1000000 + clock[2] - score) or ''
end
return {silences, redis.call('HMGET', KEYS[4], unpack(drivers))}
""")


@dataclass(frozen=True, slots=True)
class LastSeen:
    """A driver in the index: the time since the driver was last seen, and the last ping."""

    silence: timedelta
    ping: Ping | None


async def last_seen(redis: RedisClient, driver_ids: Sequence[DriverId]) -> dict[DriverId, LastSeen]:
    """The drivers of these who are in the index; one call for each MAX_DRIVERS_PER_CALL drivers."""
    found: dict[DriverId, LastSeen] = {}
    for start in range(0, len(driver_ids), MAX_DRIVERS_PER_CALL):
        asked = driver_ids[start : start + MAX_DRIVERS_PER_CALL]
        answer = await redis.script(LAST, INDEX_KEYS, [_encode([str(one) for one in asked])])
        if answer is None:
            raise IndexLost
        for driver_id, silence, ping in zip(asked, *answer, strict=True):
            if silence:
                last = read_ping(ping.decode()) if ping else None
                found[driver_id] = LastSeen(timedelta(microseconds=int(silence)), last)
    return found


async def is_complete(redis: RedisClient) -> bool:
    async def read(client: Any) -> bool:
        return bool(await client.exists(COMPLETE_KEY))

    return await redis.run(read)


async def mark_complete(redis: RedisClient) -> None:
    async def write(client: Any) -> None:
        await client.set(COMPLETE_KEY, 1)

    await redis.run(write)


async def count_drivers(redis: RedisClient) -> int:
    async def read(client: Any) -> int:
        return await client.zcard(SEEN_KEY)

    return await redis.run(read)


async def scan_drivers(redis: RedisClient, cursor: int) -> tuple[int, list[DriverId]]:
    """Read some hundred drivers from the cursor on; returns the next cursor, which is 0 at the end."""

    async def read(client: Any) -> Any:
        return await client.zscan(SEEN_KEY, cursor, count=500)

    following, members = await redis.run(read)
    return int(following), [DriverId(UUID(member.decode())) for member, _ in members]
