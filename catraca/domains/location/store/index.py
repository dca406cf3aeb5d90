"""The map in Redis: who is online and when they were heard of last, their last ping, and where that was.

All of it may vanish at any time. `WHOLE_KEY` is there while the rest is: where it is missing, Redis was
emptied since the map was last filled from PostgreSQL, and nothing here is an answer (`MapLost`).
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

WHOLE_KEY = "catraca:location:whole"
GEO_KEY = "catraca:location:geo"
# Drivers online, by when they were heard of last: microseconds of Redis's clock.
SEEN_KEY = "catraca:location:seen"
PINGS_KEY = "catraca:location:pings"
# Who fills the map, and who patrols, at the moment.
FILL_KEY = "catraca:location:filling"
PATROL_KEY = "catraca:location:patrol"
MAP_KEYS = (WHOLE_KEY, GEO_KEY, SEEN_KEY, PINGS_KEY)


def lock_key(driver_id: UUID) -> str:
    return f"driver:{driver_id}:lock"


class MapLost(RedisAway):
    """Redis answers, and has forgotten the map: the same as being away, until it is filled again."""


NO_PING = ""
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[str]).decode


def write_ping(ping: Ping) -> str:
    """As Redis keeps it."""
    more = " ".join(
        "" if value is None else f"{value:.1f}"
        for value in (ping.accuracy_meters, ping.speed_mps, ping.heading_degrees)
    )
    return f"{ping.at.timestamp():.6f} {ping.place.lat!r} {ping.place.lon!r} {more}"


def read_ping(text: str) -> Ping:
    at, lat, lng, *more = text.split(" ")
    moment = datetime.fromtimestamp(float(at), UTC)
    # What an older version of us wrote has only the first of these.
    return Ping(Place(float(lat), float(lng)), moment, *(float(one) if one else None for one in more))


@dataclass(frozen=True, slots=True)
class Change:
    """What one driver's pings change: `ping` is the new last one (or none), if `after` still is the last."""

    driver_id: str
    after: str
    ping: str
    place: Place | None


# Answers for each driver "+" (done), "-" (not online, as far as is known here) or "=" and the last ping, if
# that is another than was thought: whoever judged by it must judge again.
APPLY = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local clock = redis.call('TIME')
local at = string.format('%.0f', clock[1] * 1000000 + clock[2])
local answers = {}
for i, change in ipairs(cmsgpack.unpack(ARGV[1])) do
  local driver, after, ping, lat, lng = unpack(change)
  local last = redis.call('HGET', KEYS[4], driver) or ''
  if not redis.call('ZSCORE', KEYS[3], driver) then
    answers[i] = '-'
  elseif last ~= after then
    answers[i] = '=' .. last
  else
    redis.call('ZADD', KEYS[3], at, driver)
    if ping ~= '' then
      redis.call('HSET', KEYS[4], driver, ping)
      redis.call('GEOADD', KEYS[2], lng, lat, driver)
    end
    answers[i] = '+'
  end
end
return cmsgpack.pack(answers)
""")


async def apply_changes(redis: RedisClient, changes: Sequence[Change]) -> list[str]:
    """One trip for all of them; an answer for each, as the script says."""
    packed = [
        (c.driver_id, c.after, c.ping, c.place.lat if c.place else 0, c.place.lon if c.place else 0)
        for c in changes
    ]
    answer = await redis.script(APPLY, MAP_KEYS, [_encode(packed)])
    if answer is None:
        raise MapLost
    return _decode(answer)


# With "NX" nobody who is there already is changed: for filling the map again, while pings come.
SHOW = Script("""
local clock = redis.call('TIME')
local at = string.format('%.0f', clock[1] * 1000000 + clock[2])
local filling = ARGV[1] == 'NX'
for i, one in ipairs(cmsgpack.unpack(ARGV[2])) do
  local driver, ping, lat, lng = unpack(one)
  if not (filling and redis.call('ZSCORE', KEYS[3], driver)) then
    redis.call('ZADD', KEYS[3], at, driver)
    if ping ~= '' then
      redis.call('HSET', KEYS[4], driver, ping)
      redis.call('GEOADD', KEYS[2], lng, lat, driver)
    elseif not filling then
      redis.call('HDEL', KEYS[4], driver)
      redis.call('ZREM', KEYS[2], driver)
    end
  end
end
""")


async def show(
    redis: RedisClient, drivers: Mapping[DriverId, Ping | None], *, mode: Literal["NX", "XX"]
) -> None:
    """Put drivers who are online on the map, as just heard of, with where they are if that is known.

    "XX" forgets where they were before; "NX" leaves those alone who are there.
    """
    packed = [
        (str(driver_id), write_ping(ping), ping.place.lat, ping.place.lon)
        if ping
        else (str(driver_id), NO_PING, 0, 0)
        for driver_id, ping in drivers.items()
    ]
    await redis.script(SHOW, MAP_KEYS, [mode, _encode(packed)])


async def hide(redis: RedisClient, driver_ids: Iterable[UUID]) -> None:
    """Take drivers off the map; nothing of them stays."""
    names = [str(driver_id) for driver_id in driver_ids]

    async def remove(client: Any) -> None:
        async with client.pipeline(transaction=True) as pipeline:
            pipeline.zrem(SEEN_KEY, *names)
            pipeline.hdel(PINGS_KEY, *names)
            pipeline.zrem(GEO_KEY, *names)
            await pipeline.execute()

    if names:
        await redis.run(remove)


NEAREST = Script("""
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local found = redis.call('GEOSEARCH', KEYS[2], 'FROMLONLAT', ARGV[1], ARGV[2], 'BYRADIUS', ARGV[3], 'm',
  'ASC', 'COUNT', ARGV[4])
if #found == 0 then return {{}, {}} end
return {found, redis.call('HMGET', KEYS[4], unpack(found))}
""")
# What Lua can unpack, with room to spare.
MOST_AT_ONCE = 4000


async def nearest(
    redis: RedisClient, place: Place, *, radius_meters: float, limit: int
) -> list[tuple[DriverId, Ping]]:
    """Whoever is on the map within the radius, nearest first, to within a metre."""
    found = await redis.script(NEAREST, MAP_KEYS, [place.lon, place.lat, radius_meters, limit])
    if found is None:
        raise MapLost
    return [
        (DriverId(UUID(driver.decode())), read_ping(ping.decode()))
        for driver, ping in zip(*found, strict=True)
        if ping is not None
    ]


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
class LastHeard:
    """What the map knows of a driver: how long ago they were heard of, and their last ping."""

    silence: timedelta
    ping: Ping | None


async def last_heard(redis: RedisClient, driver_ids: Sequence[DriverId]) -> dict[DriverId, LastHeard]:
    """Those of the drivers who are on the map; at most `MOST_AT_ONCE` are asked for."""
    if not driver_ids:
        return {}
    answer = await redis.script(LAST, MAP_KEYS, [_encode([str(one) for one in driver_ids])])
    if answer is None:
        raise MapLost
    return {
        driver_id: LastHeard(timedelta(microseconds=int(silence)), read_ping(ping.decode()) if ping else None)
        for driver_id, silence, ping in zip(driver_ids, *answer, strict=True)
        if silence
    }


async def is_whole(redis: RedisClient) -> bool:
    async def look(client: Any) -> bool:
        return bool(await client.exists(WHOLE_KEY))

    return await redis.run(look)


async def mark_whole(redis: RedisClient) -> None:
    async def mark(client: Any) -> None:
        await client.set(WHOLE_KEY, 1)

    await redis.run(mark)


async def count(redis: RedisClient) -> int:
    """How many drivers the map takes for online."""

    async def ask(client: Any) -> int:
        return await client.zcard(SEEN_KEY)

    return await redis.run(ask)


async def some(redis: RedisClient, cursor: int) -> tuple[int, list[DriverId]]:
    """A walk through everybody on the map, a few hundred at a time, until the cursor is 0 again."""

    async def ask(client: Any) -> Any:
        return await client.zscan(SEEN_KEY, cursor, count=500)

    following, members = await redis.run(ask)
    return int(following), [DriverId(UUID(member.decode())) for member, _ in members]
