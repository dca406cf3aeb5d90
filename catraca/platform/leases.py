"""Leases: who may hold something for a while. They hurry and never decide: Redis may forget any of them.

A holder is a name. Whoever holds a lease may take it again, which renews it; anybody else is turned away
until it has been released or has ended. All time here is Redis's own. Each new holding gets a fence, a number
larger than that of every holding before it, for whoever must tell a late act from the present holder's.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from catraca.platform.redis_client import Client, RedisClient, Script

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# One count for all leases: a count for each would have to be kept for as long as its subject lives.
FENCES_KEY = "catraca:leases:fence"

# A fence is at least the time in microseconds, so that a Redis which forgot the count does not begin anew.
# For two centuries Lua's numbers hold that exactly.
ACQUIRE = Script("""
local clock = redis.call('TIME')
local at = clock[1] * 1000000 + clock[2]
local wanted = tonumber(ARGV[2])
local holder, fence = unpack(redis.call('HMGET', KEYS[1], 'holder', 'fence'))
if holder and holder ~= ARGV[1] then return false end
local renewed = holder and '1' or '0'
if not holder then
  fence = string.format('%.0f', math.max(tonumber(redis.call('GET', KEYS[2]) or 0) + 1, at))
  redis.call('SET', KEYS[2], fence)
  redis.call('HSET', KEYS[1], 'holder', ARGV[1], 'fence', fence)
end
local left = redis.call('PTTL', KEYS[1])
if left < wanted then
  redis.call('PEXPIRE', KEYS[1], wanted)
  left = wanted
end
return {fence, string.format('%.0f', at + left * 1000), renewed}
""")

RELEASE = Script("""
local released = 0
for _, key in ipairs(KEYS) do
  if redis.call('HGET', key, 'holder') == ARGV[1] then released = released + redis.call('DEL', key) end
end
return released
""")


@dataclass(frozen=True, slots=True)
class Lease:
    expires_at: datetime
    fence: int
    # Whether this holder had it already.
    renewed: bool


async def acquire_lease(redis: RedisClient, key: str, *, holder: str, ttl: timedelta) -> Lease | None:
    """Hold `key` from now on; None when somebody else does. Safe to repeat: the holder renews it.

    A renewal never shortens and keeps the fence. Raises `RedisAway`, after which it may be held all the same.
    """
    milliseconds = max(1, round(ttl.total_seconds() * 1000))
    held = await redis.script(ACQUIRE, [key, FENCES_KEY], [holder, milliseconds])
    if held is None:
        return None
    fence, expires_at, renewed = (int(number) for number in held)
    return Lease(EPOCH + timedelta(microseconds=expires_at), fence, bool(renewed))


async def release_lease(redis: RedisClient, *keys: str, holder: str) -> bool:
    """Let go of those this holder has; whether it had any. Others' leases stay. Raises `RedisAway`."""
    return bool(await redis.script(RELEASE, keys, [holder]))


async def read_holder(redis: RedisClient, key: str) -> str | None:
    """Who holds it just now. Raises `RedisAway`."""

    async def read(client: Client) -> bytes | None:
        return await client.hget(key, "holder")

    holder = await redis.run(read)
    return None if holder is None else holder.decode()
