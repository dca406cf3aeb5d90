"""Rate limits of callers: counted in Redis for all processes, in each process while Redis is away."""

import hashlib
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from starlette.requests import Request

from catraca.platform.clock import monotonic_seconds
from catraca.platform.errors import TooManyRequests
from catraca.platform.gather import Gather
from catraca.platform.http.proxies import address_of
from catraca.platform.lines import fold_email
from catraca.platform.redis_client import RedisAway, RedisClient, Script

UNITS_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
MICROSECONDS = 1_000_000
BUCKETS_KEPT = 50_000
KEYS_REMEMBERED = 10_000
KEY_PREFIX = b"catraca:rate:"

# Generic cell rate algorithm, one key per bucket: its value is the time (of Redis, microseconds) at which the
# bucket is empty again. Returns the microseconds to wait, "0" for requests that may pass. A value beyond one
# period comes from a clock set back or a limit made smaller, and must not lock callers out.
COUNT = Script("""
local clock = redis.call('TIME')
local at = clock[1] * 1000000 + clock[2]
local waits = {}
for i, key in ipairs(KEYS) do
  local step, period, counts = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), ARGV[3 * i] == '1'
  local empty_at = tonumber(redis.call('GET', key) or at) or at
  empty_at = math.min(math.max(empty_at, at), at + period)
  local wait = empty_at + step - period - at
  if wait > 0 then
    waits[i] = string.format('%.0f', wait)
  elseif not counts then
    waits[i] = '0'
  else
    empty_at = empty_at + step
    redis.call('SET', key, string.format('%.0f', empty_at), 'PX', math.ceil((empty_at - at) / 1000))
    waits[i] = '0'
  end
end
return table.concat(waits, ' ')
""")


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`count` requests in `seconds`, spread evenly, with bursts up to `count`."""

    count: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> "RateLimit":
        """From "600/minute"."""
        match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(second|minute|hour|day)\s*", text, re.ASCII)
        if match is None or int(match[1]) == 0:
            raise ValueError(f'"{text}" is not a rate: write it as "600/minute"')
        return cls(int(match[1]), UNITS_SECONDS[match[2]])

    @property
    def period_microseconds(self) -> int:
        return self.seconds * MICROSECONDS

    @property
    def step_microseconds(self) -> int:
        """Rounded down: `count` steps must fit into the period, so that the last of a burst passes."""
        return max(1, self.period_microseconds // self.count)


class RateLimiter:
    """Counts by the generic cell rate algorithm: one number per bucket, the time when it is empty again."""

    def __init__(self, redis: RedisClient, *, key: bytes) -> None:
        """`key` hides the names of buckets in Redis: addresses are personal data."""
        self._redis: Final = redis
        secret = hashlib.sha256(b"rate limits\0" + key).digest()

        @lru_cache(maxsize=KEYS_REMEMBERED)
        def key_of(bucket: str, limit: RateLimit) -> bytes:
            # With the limit in its name: after a change of the setting, an old full bucket does not count.
            whole = f"{bucket} {limit.step_microseconds} {limit.period_microseconds}"
            return (
                KEY_PREFIX + hashlib.blake2b(whole.encode(), key=secret, digest_size=16).hexdigest().encode()
            )

        self._key_of: Final = key_of
        self._shared: Final = Gather(self._count_in_redis)
        self._local: Final = LocalBuckets()

    async def hit(self, bucket: str, limit: RateLimit, *, counts: bool = True, cost: int = 1) -> float | None:
        """Count one request; None if it may pass, else the seconds until one may.

        A request that costs more than the whole bucket passes when the bucket is empty.
        """
        cost = min(cost, limit.count)
        if self._redis.seems_up():
            with suppress(RedisAway):
                return await self._shared.ask((bucket, limit, counts, cost))
        return self._local.hit(bucket, limit, counts=counts, cost=cost)

    async def demand(self, bucket: str, limit: RateLimit, *, counts: bool = True) -> None:
        """Count one request; raises `TooManyRequests` if it may not pass.

        Where only failures count: call this with `counts=False` first, and `hit` after each failure.
        """
        wait_seconds = await self.hit(bucket, limit, counts=counts)
        if wait_seconds is not None:
            raise TooManyRequests(retry_after_seconds=math.ceil(wait_seconds))

    async def _count_in_redis(
        self, hits: Sequence[tuple[str, RateLimit, bool, int]]
    ) -> Sequence[float | None]:
        keys: list[bytes] = []
        steps: list[int] = []
        for bucket, limit, counts, cost in hits:
            keys.append(self._key_of(bucket, limit))
            steps += (limit.step_microseconds * cost, limit.period_microseconds, int(counts))
        waits: bytes = await self._redis.script(COUNT, keys, steps)
        return [None if wait == b"0" else int(wait) / MICROSECONDS for wait in waits.split()]


async def demand_for_email(
    request: Request, action: str, email: str, *, per_address: RateLimit, per_email: RateLimit
) -> None:
    """Count one attempt by network address and by e-mail address; raises `TooManyRequests`."""
    limiter: RateLimiter = request.app.state.limiter
    await limiter.demand(f"{action}:address:{address_of(request)}", per_address)
    await limiter.demand(f"{action}:email:{fold_email(email)}", per_email)


class LocalBuckets:
    """The same in this process only. The least recently used buckets are dropped first."""

    def __init__(self) -> None:
        self._empty_at: dict[str, int] = {}

    def hit(self, bucket: str, limit: RateLimit, *, counts: bool = True, cost: int = 1) -> float | None:
        at = int(monotonic_seconds() * MICROSECONDS)
        step, period = limit.step_microseconds * cost, limit.period_microseconds
        empty_at = min(max(self._empty_at.pop(bucket, at), at), at + period)
        wait = empty_at + step - period - at
        self._empty_at[bucket] = empty_at if wait > 0 or not counts else empty_at + step
        if len(self._empty_at) > BUCKETS_KEPT:
            del self._empty_at[next(iter(self._empty_at))]
        return wait / MICROSECONDS if wait > 0 else None
