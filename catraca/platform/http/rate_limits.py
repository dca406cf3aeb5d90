"""How often one caller may call: counted in Redis for all processes, locally while Redis is away."""

import re
from dataclasses import dataclass

from catraca.platform.clock import monotonic_seconds

UNITS_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
BUCKETS_KEPT = 50_000


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`count` requests in `seconds`, spread evenly, with bursts up to `count`."""

    count: int
    seconds: int

    @classmethod
    def parse(cls, text: str) -> "RateLimit":
        """From "600/minute"."""
        match = re.fullmatch(r"\s*(\d+)\s*/\s*(second|minute|hour|day)\s*", text)
        if match is None or int(match[1]) == 0:
            raise ValueError(f'"{text}" is not a rate: write it as "600/minute"')
        return cls(int(match[1]), UNITS_SECONDS[match[2]])


class RateLimiter:
    """Generic cell rate algorithm: one number a bucket, the time at which it is empty again."""

    def __init__(self) -> None:
        self._empty_at: dict[str, float] = {}

    async def hit(self, bucket: str, limit: RateLimit) -> float | None:
        """Count one request: None when it may pass, else the seconds until one may."""
        at = monotonic_seconds()
        step = limit.seconds / limit.count
        empty_at = max(self._empty_at.pop(bucket, at), at)
        wait = empty_at + step - limit.seconds - at
        self._empty_at[bucket] = empty_at if wait > 0 else empty_at + step
        if len(self._empty_at) > BUCKETS_KEPT:
            del self._empty_at[next(iter(self._empty_at))]
        return wait if wait > 0 else None
