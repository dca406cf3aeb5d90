"""Queues before database locks: callers of one key wait here, without a connection.

A queue is an optimization and never decides: if Redis is away, or the wait is too long, the caller continues
without it, and the database decides. A caller keeps its place until its work has committed, so the next one
sees the result.

Callers of one process queue in memory. A caller that finds the queue empty continues at once. When a caller
must wait, the process takes a lease in Redis, so that one process at a time works on the key. It passes
the lease on among its own callers for a short time, then releases it to other processes.
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

# As long as a request may take from its first statement to its commit. The lease of a dead process expires.
LEASE_TTL = timedelta(seconds=5)
POLL_SECONDS = (0.002, 0.02)

OUTCOMES = Counter("catraca_turns_total", "Calls that used a key's queue, by outcome.", ["outcome"])


class _Queue:
    """The callers of one key in this process."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.callers = 0
        # The name under which this process holds the lease, and until when it passes the lease on.
        self.holder: str | None = None
        self.keep_until = 0.0


class KeyQueues:
    """One queue per key. Make one instance per process."""

    def __init__(
        self,
        redis: RedisClient,
        *,
        wait_seconds: float = 1.0,
        keep_seconds: float = 0.2,
        lease_ttl: timedelta = LEASE_TTL,
    ) -> None:
        """`wait_seconds`: the longest wait for a place; `keep_seconds`: how long the lease is passed on."""
        self._redis = redis
        self._wait_seconds = wait_seconds
        self._keep_seconds = keep_seconds
        self._lease_ttl = lease_ttl
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def enter(self, key: str) -> AsyncGenerator[None]:
        """Wait for the other callers of `key`, then run the block."""
        queue = self._queues.setdefault(key, _Queue())
        queue.callers += 1
        try:
            async with self._place(queue, key, is_first=queue.callers == 1) as outcome:
                OUTCOMES.labels(outcome).inc()
                yield
        finally:
            queue.callers -= 1
            if queue.callers == 0:
                del self._queues[key]
                # It was kept for a caller that then stopped waiting.
                await self._release_lease(queue, key)

    @asynccontextmanager
    async def _place(self, queue: _Queue, key: str, *, is_first: bool) -> AsyncGenerator[str]:
        deadline = monotonic_seconds() + self._wait_seconds
        if is_first:
            await queue.lock.acquire()  # free, so this does not wait
        elif not await self._acquired(queue.lock):
            yield "went_without"
            return
        try:
            if is_first:
                yield "alone"
            else:
                yield "taken" if await self._has_lease(queue, key, deadline) else "went_without"
        finally:
            try:
                if queue.callers == 1 or monotonic_seconds() >= queue.keep_until:
                    await self._release_lease(queue, key)
            finally:
                queue.lock.release()

    async def _acquired(self, lock: asyncio.Lock) -> bool:
        try:
            async with asyncio.timeout(self._wait_seconds):
                return await lock.acquire()
        except TimeoutError:
            return False

    async def _has_lease(self, queue: _Queue, key: str, deadline: float) -> bool:
        """Use the lease of the caller before, or ask Redis for it until the deadline."""
        with suppress(RedisAway):
            while queue.holder is None and not await self._acquire_lease(queue, key):
                if monotonic_seconds() >= deadline:
                    return False
                await asyncio.sleep(random.uniform(*POLL_SECONDS))  # noqa: S311
        return queue.holder is not None

    async def _acquire_lease(self, queue: _Queue, key: str) -> bool:
        # Set before the question: if that is canceled, Redis may have granted the lease, and it is released.
        queue.holder, queue.keep_until = str(uuid4()), monotonic_seconds() + self._keep_seconds
        try:
            lease = await acquire_lease(self._redis, key, holder=queue.holder, ttl=self._lease_ttl)
        except RedisAway:
            queue.holder = None
            raise
        if lease is None:
            queue.holder = None
        return lease is not None

    async def _release_lease(self, queue: _Queue, key: str) -> None:
        holder, queue.holder = queue.holder, None
        if holder is not None:
            with suppress(RedisAway):
                await release_lease(self._redis, key, holder=holder)
