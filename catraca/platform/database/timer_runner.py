"""Fires due timers: claims them and runs the handler of each in its own transaction.

A timer's work is applied once, even if processes crash or hang. A handler that raises is counted and retried
for ever, with growing pauses; `catraca doctor` reports it. An outage is not counted as a failure.
"""

import asyncio
from collections.abc import Iterable
from uuid import uuid4

import structlog
from prometheus_client import Counter, Histogram

from catraca.platform.bus.outage_retry import AWAY
from catraca.platform.database import Database, Db, timers
from catraca.platform.database.timers import DueTimer, Handler, TimerHandlers, TimerKind
from catraca.platform.pauses import Backoff, within

log = structlog.get_logger()

# Each uses a connection of the pool.
AT_ONCE = 4
# Shorter than the lease: after its end another process takes the timer over.
HANDLER_SECONDS = 8.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 2.0
# A timer that is due for longer and cannot be claimed is locked by a transaction that moves or cancels it.
JUST_DUE_SECONDS = 0.01
LOCKED_PAUSE_SECONDS = 0.05

OUTCOMES = Counter("catraca_timers_total", "Attempts to fire a due timer, by outcome.", ["kind", "outcome"])
LAG_SECONDS = Histogram(
    "catraca_timer_lag_seconds",
    "From a timer's due moment to the end of its handler, by the database's clock.",
    ["kind"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 120),
)


class Overtaken(Exception):
    """The timer was moved, canceled or taken over during the attempt: its handler's work is rolled back."""


class TimerRunner:
    """Fires the kinds it has handlers for. Safe to run many times, in many processes."""

    def __init__(
        self,
        database: Database,
        handlers: Iterable[TimerHandlers],
        hands: asyncio.Semaphore | None = None,
    ) -> None:
        """`hands` limits the concurrent transactions of all background work of the process."""
        self._database = database
        self._hands = hands or asyncio.Semaphore(AT_ONCE)
        self._handlers: dict[TimerKind, Handler] = {}
        for each in handlers:
            twice = self._handlers.keys() & each.by_kind.keys()
            assert not twice, f"two handlers for {twice}"
            self._handlers.update(each.by_kind)
        self._room = AT_ONCE
        self._room_made = asyncio.Event()
        # Claimed timers that an outage kept us from releasing.
        self._unreleased: list[DueTimer] = []

    async def run(self, stopping: asyncio.Event) -> None:
        """Fire timers until `stopping` is set; then finish or release the claimed ones."""
        backoff = Backoff(first_seconds=FIRST_PAUSE_SECONDS, longest_seconds=LONGEST_PAUSE_SECONDS)
        with self._database.channel.subscribe(timers.WAKE_TOPIC) as woken:
            async with asyncio.TaskGroup() as tasks:
                while not stopping.is_set():
                    woken.clear()
                    try:
                        idle_seconds = await self._claim(tasks)
                    except AWAY as error:
                        pause_seconds = backoff.next_seconds()
                        log.warning("timer_runner_paused", reason=type(error).__name__, seconds=pause_seconds)
                        await within(pause_seconds, stopping)
                        continue
                    backoff.reset()
                    if self._room == 0:
                        await within(timers.POLL_SECONDS, self._room_made, stopping)
                    elif idle_seconds > 0:
                        await within(idle_seconds, woken, stopping)
        await self._finish()

    async def _claim(self, tasks: asyncio.TaskGroup) -> float:
        """Claim due timers as far as there is room; returns the seconds until the next claim."""
        self._room_made.clear()
        room, kinds = self._room, self._handlers.keys()
        async with self._database.connection() as db:
            if unreleased := list(self._unreleased):
                await timers.release(db, unreleased)
                del self._unreleased[: len(unreleased)]
            claimed = await timers.claim_due(
                db, kinds, lease=uuid4(), lease_seconds=timers.LEASE_SECONDS, limit=room
            )
            for timer in claimed:
                self._room -= 1
                tasks.create_task(self._fire(timer))
            if len(claimed) == room:
                return 0
            seconds = await timers.seconds_to_next(db, kinds)
        if seconds is None:
            return timers.POLL_SECONDS
        if seconds < -JUST_DUE_SECONDS:
            return LOCKED_PAUSE_SECONDS
        return min(timers.POLL_SECONDS, seconds)

    async def _fire(self, timer: DueTimer) -> None:
        try:
            with structlog.contextvars.bound_contextvars(request_id=f"{timer.kind}:{timer.subject_id}"):
                outcome = await self._attempt(timer)
            OUTCOMES.labels(timer.kind, outcome).inc()
        except AWAY:
            self._unreleased.append(timer)
        finally:
            self._room += 1
            self._room_made.set()

    async def _attempt(self, timer: DueTimer) -> str:
        try:
            async with self._hands, asyncio.timeout(HANDLER_SECONDS):
                late_seconds = await self._database.run(lambda db: self._apply(db, timer))
        except Overtaken:
            return "overtaken"
        except AWAY as error:
            log.warning("timer_postponed", kind=timer.kind, reason=type(error).__name__)
            await self._database.run(lambda db: timers.postpone(db, timer))
            return "postponed"
        except Exception as error:  # noqa: BLE001 - a handler may raise anything
            await self._fail(timer, error)
            return "failed"
        LAG_SECONDS.labels(timer.kind).observe(max(0.0, late_seconds))
        return "fired"

    async def _apply(self, db: Db, timer: DueTimer) -> float:
        if not await timers.begin_firing(db, timer):
            raise Overtaken
        await self._handlers[timer.kind](db, timer.subject_id)
        late_seconds = await timers.end_firing(db, timer)
        if late_seconds is None:
            raise Overtaken
        return late_seconds

    async def _fail(self, timer: DueTimer, error: Exception) -> None:
        log.error(
            "timer_failed",
            kind=timer.kind,
            subject_id=timer.subject_id,
            failures=timer.failures + 1,
            exc_info=error,
        )
        await self._database.run(lambda db: timers.count_failure(db, timer))

    async def _finish(self) -> None:
        if not self._unreleased:
            return
        try:
            await self._database.run(lambda db: timers.release(db, self._unreleased))
        except AWAY as error:  # their leases expire
            log.warning("timers_not_released", count=len(self._unreleased), reason=type(error).__name__)
