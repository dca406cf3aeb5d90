"""Leases in Redis: a key is held by one holder for a limited time.

Leases are an optimization and never decide: Redis may lose any of them. The holder is a name. The holder may
acquire its lease again, which renews it; others cannot until it is released or expires. All times are
Redis's. Each new lease gets a fence, a number larger than that of every lease before it: it
distinguishes a late act of an earlier holder from an act of the present one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from catraca.platform.redis_client import Client, RedisClient, Script

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# One counter for all leases: a counter for each key would have to be kept as long as the key is used.
FENCES_KEY = "catraca:leases:fence"

# A fence is at least the time in microseconds, so that fences grow even if Redis has lost the counter. Lua's
# numbers hold it exactly for two centuries.
ACQUIRE = Script("""
local clock = redis.call('TIME')
local at = clock[1] * 1000000 + clock[2]
local wanted = tonumber(ARGV[1])
local answers = {}
for i = 2, #KEYS do
  local key = KEYS[i]
  local holder, fence = unpack(redis.call('HMGET', key, 'holder', 'fence'))
  if holder and holder ~= ARGV[i] then
    answers[i - 1] = false
  else
    local renewed = holder and '1' or '0'
    if not holder then
      fence = string.format('%.0f', math.max(tonumber(redis.call('GET', KEYS[1]) or 0) + 1, at))
      redis.call('SET', KEYS[1], fence)
      redis.call('HSET', key, 'holder', ARGV[i], 'fence', fence)
    end
    local left = redis.call('PTTL', key)
    if left < wanted then
      redis.call('PEXPIRE', key, wanted)
      left = wanted
    end
    answers[i - 1] = {fence, string.format('%.0f', at + left * 1000), renewed}
  end
end
return answers
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
    # True if this holder had the lease before.
    renewed: bool


async def acquire_lease(redis: RedisClient, key: str, *, holder: str, ttl: timedelta) -> Lease | None:
    """Acquire or renew the lease on `key`; None if another holder has it. Safe to repeat.

    A renewal keeps the fence and never shortens the lease. After `RedisAway` it may or may not be acquired.
    """
    (lease,) = await acquire_leases(redis, {key: holder}, ttl=ttl)
    return lease


async def acquire_leases(
    redis: RedisClient, holders: Mapping[str, str], *, ttl: timedelta
) -> list[Lease | None]:
    """The same for several keys, each with its own holder, in one call."""
    milliseconds = max(1, round(ttl.total_seconds() * 1000))
    answers = await redis.script(ACQUIRE, [FENCES_KEY, *holders], [milliseconds, *holders.values()])
    return [None if answer is None else _lease(*map(int, answer)) for answer in answers]


def _lease(fence: int, expires_at: int, renewed: int) -> Lease:
    return Lease(EPOCH + timedelta(microseconds=expires_at), fence, bool(renewed))


async def release_lease(redis: RedisClient, *keys: str, holder: str) -> bool:
    """Release the leases of this holder on these keys; True if it had any. Raises `RedisAway`."""
    return bool(await redis.script(RELEASE, keys, [holder]))


async def read_holder(redis: RedisClient, key: str) -> str | None:
    """The present holder. Raises `RedisAway`."""

    async def read(client: Client) -> bytes | None:
        return await client.hget(key, "holder")

    holder = await redis.run(read)
    return None if holder is None else holder.decode()
