"""Turns: whoever wants the same thing waits in line outside the database, not in it with a connection.

They hurry and never decide. With Redis away, or after too long a wait, one goes on without: what decides is
the database. A turn is held until the work has committed; whoever comes next then sees what it did.

Within a process the line is kept here. Whoever finds nobody in it goes ahead at once, which costs nothing; as
soon as one must wait, the process takes the lease in Redis, so that of all processes one is at it. It hands
the lease from one to the next for a while, and then lets the others come.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from uuid import uuid4

from prometheus_client import Counter

from catraca.platform.clock import monotonic_seconds
from catraca.platform.leases import acquire_lease, release_lease
from catraca.platform.redis_client import RedisAway, RedisClient

# As long as a request may take from its first statement to its commit; a dead holder's ends by itself.
TURN_TTL = timedelta(seconds=5)
WAIT_SECONDS = 1.0
PAUSES_SECONDS = (0.002, 0.02)
# So long one process after another has it, if others of its own wait.
KEPT_SECONDS = 0.2

TURNS = Counter("catraca_turns_total", "Turns taken, by how it went.", ["outcome"])


class _Line:
    """Those of one process who want the same."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.people = 0
        # The name under which the process has the lease, and until when it hands it on.
        self.holder: str | None = None
        self.kept_until = 0.0


class Turns:
    """One process's place in the lines: of those here who want the same, one at a time stands there."""

    def __init__(self, redis: RedisClient) -> None:
        self._redis = redis
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def take(self, key: str) -> AsyncGenerator[None]:
        """Hold `key` while the block runs, if it is to be had in time."""
        line = self._lines.setdefault(key, _Line())
        line.people += 1
        try:
            async with self._place(line, key, is_first=line.people == 1) as outcome:
                TURNS.labels(outcome).inc()
                yield
        finally:
            line.people -= 1
            if line.people == 0:
                del self._lines[key]
                # Left to somebody who then would not wait any longer.
                await self._give_back(line, key)

    @asynccontextmanager
    async def _place(self, line: _Line, key: str, *, is_first: bool) -> AsyncGenerator[str]:
        gives_up_at = monotonic_seconds() + WAIT_SECONDS
        if is_first:
            await line.lock.acquire()  # nobody has it
        elif not await _acquired(line.lock):
            yield "went_without"
            return
        try:
            if is_first:
                yield "alone"
            else:
                yield "taken" if await self._has_lease(line, key, gives_up_at) else "went_without"
        finally:
            try:
                if line.people == 1 or monotonic_seconds() >= line.kept_until:
                    await self._give_back(line, key)
            finally:
                line.lock.release()

    async def _has_lease(self, line: _Line, key: str, gives_up_at: float) -> bool:
        """From whoever was before us, or among processes."""
        with suppress(RedisAway):
            while line.holder is None and not await self._take_lease(line, key):
                if monotonic_seconds() >= gives_up_at:
                    return False
                await asyncio.sleep(random.uniform(*PAUSES_SECONDS))  # noqa: S311
        return line.holder is not None

    async def _take_lease(self, line: _Line, key: str) -> bool:
        # Known before it is asked for: if that is canceled, it may be held all the same.
        line.holder, line.kept_until = str(uuid4()), monotonic_seconds() + KEPT_SECONDS
        try:
            lease = await acquire_lease(self._redis, key, holder=line.holder, ttl=TURN_TTL)
        except RedisAway:
            line.holder = None
            raise
        if lease is None:
            line.holder = None
        return lease is not None

    async def _give_back(self, line: _Line, key: str) -> None:
        holder, line.holder = line.holder, None
        if holder is not None:
            with suppress(RedisAway):
                await release_lease(self._redis, key, holder=holder)


async def _acquired(lock: asyncio.Lock) -> bool:
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            return await lock.acquire()
    except TimeoutError:
        return False
