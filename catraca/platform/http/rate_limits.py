"""Rate limits of callers: counted in Redis for all processes, in each process while Redis is away."""

import asyncio
import contextvars
import hashlib
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

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

# A request passes without asking Redis while its bucket is at most this full, as far as this process knows.
# Up to eight processes together then stay within the limit.
UNASKED_SHARE = 1 / 8
# Smaller limits guard passwords, codes and mail: they are exact, so Redis is asked for each request.
SMALLEST_UNASKED_LIMIT = 60
# Requests that passed without asking are counted in Redis after this time, all together.
REPORT_SECONDS = 0.02

# What a hit does to its bucket.
LOOK, COUNT_IF_PASSING, COUNT = 0, 1, 2

# Generic cell rate algorithm, one key per bucket: its value is the time (of Redis, microseconds) at which the
# bucket is empty again. Returns two numbers for each hit, in microseconds: how long to wait (0 for requests
# that may pass), and how full the bucket is now. A value beyond one period comes from a clock set back or a
# limit made smaller, and must not lock callers out.
HIT = Script("""
local clock = redis.call('TIME')
local at = clock[1] * 1000000 + clock[2]
local answers = {}
for i, key in ipairs(KEYS) do
  local step, period, act = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), ARGV[3 * i]
  local empty_at = tonumber(redis.call('GET', key) or at) or at
  empty_at = math.min(math.max(empty_at, at), at + period)
  local wait = math.max(empty_at + step - period - at, 0)
  if act == '2' or (act == '1' and wait == 0) then
    empty_at = math.min(empty_at + step, at + period)
    redis.call('SET', key, string.format('%.0f', empty_at), 'PX', math.ceil((empty_at - at) / 1000))
  end
  answers[i] = string.format('%.0f %.0f', wait, empty_at - at)
end
return table.concat(answers, ' ')
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


class Hit(NamedTuple):
    """One request, or several, of one bucket."""

    key: bytes
    step_microseconds: int
    period_microseconds: int
    act: int

    @classmethod
    def of(cls, key: bytes, limit: RateLimit, *, counts: bool = True, cost: int = 1) -> "Hit":
        """A request that costs more than the whole bucket costs the whole bucket."""
        step = limit.step_microseconds * min(cost, limit.count)
        return cls(key, step, limit.period_microseconds, COUNT_IF_PASSING if counts else LOOK)


class RateLimiter:
    """Counts by the generic cell rate algorithm: one number per bucket, the time when it is empty again.

    Each process knows how full a bucket was when Redis last said so, and what it has counted since. A request
    of a large limit whose bucket has much room passes at once and is counted in Redis a little later; the
    others ask.
    """

    def __init__(self, redis: RedisClient, *, key: bytes) -> None:
        """`key` hides the names of buckets in Redis: addresses are personal data."""
        self._redis: Final = redis
        secret = hashlib.sha256(b"rate limits\0" + key).digest()

        @lru_cache(maxsize=KEYS_REMEMBERED)
        def hit_of(bucket: str, limit: RateLimit, counts: bool, cost: int) -> Hit:
            # With the limit in its name: after a change of the setting, an old full bucket does not count.
            whole = f"{bucket} {limit.step_microseconds} {limit.period_microseconds}"
            digest = hashlib.blake2b(whole.encode(), key=secret, digest_size=16).hexdigest()
            return Hit.of(KEY_PREFIX + digest.encode(), limit, counts=counts, cost=cost)

        self._hit_of: Final = hit_of
        self._asked: Final = Gather(self._hit_in_redis)
        self._local: Final = LocalBuckets()
        # Steps and period of each bucket, in microseconds.
        self._unreported: dict[bytes, tuple[int, int]] = {}
        self._reports: asyncio.Task[None] | None = None

    async def hit(self, bucket: str, limit: RateLimit, *, counts: bool = True, cost: int = 1) -> float | None:
        """Count one request; None if it may pass, else the seconds until one may.

        A request that costs more than the whole bucket passes when the bucket is empty.
        """
        hit = self._hit_of(bucket, limit, counts, cost)
        if self._redis.seems_up():
            is_general = counts and limit.count >= SMALLEST_UNASKED_LIMIT
            if is_general and self._local.passes_with_room(hit):
                self._report_later(hit)
                return None
            with suppress(RedisAway):
                return await self._asked.ask(hit)
        return self._local.hit(hit)

    async def demand(self, bucket: str, limit: RateLimit, *, counts: bool = True) -> None:
        """Count one request; raises `TooManyRequests` if it may not pass.

        Where only failures count: call this with `counts=False` first, and `hit` after each failure.
        """
        wait_seconds = await self.hit(bucket, limit, counts=counts)
        if wait_seconds is not None:
            raise TooManyRequests(retry_after_seconds=math.ceil(wait_seconds))

    def _report_later(self, hit: Hit) -> None:
        step, _ = self._unreported.get(hit.key, (0, 0))
        self._unreported[hit.key] = step + hit.step_microseconds, hit.period_microseconds
        if self._reports is None:
            # In a context of its own: the task outlives the request that happened to start it.
            self._reports = asyncio.create_task(self._send_reports(), context=contextvars.Context())

    async def _send_reports(self) -> None:
        try:
            while self._unreported:
                await asyncio.sleep(REPORT_SECONDS)
                if self._unreported:  # a question may have taken them along
                    with suppress(RedisAway):
                        await self._hit_in_redis(())
        finally:
            self._reports = None

    async def _hit_in_redis(self, hits: Sequence[Hit]) -> Sequence[float | None]:
        # First what has passed unasked. If Redis is away, it stays counted in this process only.
        reported = [Hit(key, step, period, COUNT) for key, (step, period) in self._unreported.items()]
        self._unreported.clear()
        sent = [*reported, *hits]
        arguments: list[int] = []
        for hit in sent:
            arguments += (hit.step_microseconds, hit.period_microseconds, hit.act)
        answers: bytes = await self._redis.script(HIT, [hit.key for hit in sent], arguments)
        numbers = [int(number) for number in answers.split()]
        for hit, fill in zip(sent, numbers[1::2], strict=True):
            passed_since, _ = self._unreported.get(hit.key, (0, 0))
            self._local.set_fill(hit.key, fill + passed_since)
        waits = numbers[2 * len(reported) :: 2]
        return [wait / MICROSECONDS if wait else None for wait in waits]


async def demand_for_email(
    request: Request, action: str, email: str, *, per_address: RateLimit, per_email: RateLimit
) -> None:
    """Count one attempt by network address and by e-mail address; raises `TooManyRequests`."""
    limiter: RateLimiter = request.app.state.limiter
    await limiter.demand(f"{action}:address:{address_of(request)}", per_address)
    await limiter.demand(f"{action}:email:{fold_email(email)}", per_email)


class LocalBuckets:
    """The buckets as this process knows them. The least recently used are dropped first."""

    def __init__(self) -> None:
        self._empty_at: dict[bytes, int] = {}

    def passes_with_room(self, hit: Hit) -> bool:
        """Count a request whose bucket has much room; False, and nothing is counted, if it has not."""
        at = _now()
        empty_at = max(self._empty_at.get(hit.key, 0), at) + hit.step_microseconds
        if empty_at - at > hit.period_microseconds * UNASKED_SHARE:
            return False
        self._set(hit.key, empty_at)
        return True

    def hit(self, hit: Hit) -> float | None:
        """The same as the script does in Redis, for one hit."""
        at = _now()
        empty_at = min(max(self._empty_at.get(hit.key, 0), at), at + hit.period_microseconds)
        wait = max(empty_at + hit.step_microseconds - hit.period_microseconds - at, 0)
        is_counted = hit.act == COUNT_IF_PASSING and not wait
        self._set(hit.key, empty_at + hit.step_microseconds if is_counted else empty_at)
        return wait / MICROSECONDS if wait else None

    def set_fill(self, key: bytes, fill_microseconds: int) -> None:
        """Set how full the bucket is, by the time until it is empty."""
        self._set(key, _now() + fill_microseconds)

    def _set(self, key: bytes, empty_at: int) -> None:
        self._empty_at.pop(key, None)
        self._empty_at[key] = empty_at
        if len(self._empty_at) > BUCKETS_KEPT:
            del self._empty_at[next(iter(self._empty_at))]


def _now() -> int:
    return int(monotonic_seconds() * MICROSECONDS)
