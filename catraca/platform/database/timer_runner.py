"""Fires timers when they are due: claims them, runs each one's handler in a transaction of its own.

Whatever crashes or stalls, a timer's work is applied once. A handler's own fault is counted and tried again,
later every time, for ever: `catraca doctor` names it. A server that is away counts nothing.
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

# Each takes a connection of a pool that others need too.
AT_ONCE = 4
# Shorter than the lease: a handler that ran on could only find its timer taken over.
HANDLER_SECONDS = 8.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 2.0
# A timer that has been due for longer and could not be claimed is held by whoever moves or cancels it.
JUST_DUE_SECONDS = 0.01
HELD_PAUSE_SECONDS = 0.05

OUTCOMES = Counter(
    "catraca_timers_total", "Timers taken up when due, by what became of them.", ["kind", "outcome"]
)
LAG_SECONDS = Histogram(
    "catraca_timer_lag_seconds",
    "From a timer's due moment to the end of its handler, by the database's clock.",
    ["kind"],
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 120),
)


class Overtaken(Exception):
    """The timer was moved, canceled or taken over meanwhile: nothing of its handler's work may stay."""


class TimerRunner:
    """Any number may run at once, in any number of processes; each fires the kinds it has handlers for."""

    def __init__(
        self,
        database: Database,
        handlers: Iterable[TimerHandlers],
        hands: asyncio.Semaphore | None = None,
    ) -> None:
        """`hands` bounds the transactions of this process's background work, as a consumer's does."""
        self._database = database
        self._hands = hands or asyncio.Semaphore(AT_ONCE)
        self._handlers: dict[TimerKind, Handler] = {}
        for each in handlers:
            twice = self._handlers.keys() & each.by_kind.keys()
            assert not twice, f"two handlers for {twice}"
            self._handlers.update(each.by_kind)
        self._room = AT_ONCE
        self._room_made = asyncio.Event()
        # What could not be given back when a fault made us let go of it.
        self._stranded: list[DueTimer] = []

    async def run(self, stopping: asyncio.Event) -> None:
        """Fire timers until told to stop; what is in hand by then is finished, or given back."""
        backoff = Backoff(first_seconds=FIRST_PAUSE_SECONDS, longest_seconds=LONGEST_PAUSE_SECONDS)
        with self._database.channel.subscribe(timers.WAKE_TOPIC) as woken:
            async with asyncio.TaskGroup() as hands:
                while not stopping.is_set():
                    woken.clear()
                    try:
                        idle_seconds = await self._look(hands)
                    except AWAY as error:
                        pause_seconds = backoff.next_seconds()
                        log.warning("timekeeper_pauses", reason=type(error).__name__, seconds=pause_seconds)
                        await within(pause_seconds, stopping)
                        continue
                    backoff.reset()
                    if self._room == 0:
                        await within(timers.LOOK_SECONDS, self._room_made, stopping)
                    elif idle_seconds > 0:
                        await within(idle_seconds, woken, stopping)
        await self._finish()

    async def _look(self, hands: asyncio.TaskGroup) -> float:
        """Take up what is due, as far as there is room; answers how long there is nothing more to do."""
        self._room_made.clear()
        room, kinds = self._room, self._handlers.keys()
        async with self._database.connection() as db:
            if stranded := list(self._stranded):
                await timers.give_back(db, stranded)
                del self._stranded[: len(stranded)]
            claimed = await timers.claim_due(
                db, kinds, lease=uuid4(), lease_seconds=timers.LEASE_SECONDS, limit=room
            )
            for timer in claimed:
                self._room -= 1
                hands.create_task(self._fire(timer))
            if len(claimed) == room:
                return 0
            seconds = await timers.seconds_to_next(db, kinds)
        if seconds is None:
            return timers.LOOK_SECONDS
        if seconds < -JUST_DUE_SECONDS:
            return HELD_PAUSE_SECONDS
        return min(timers.LOOK_SECONDS, seconds)

    async def _fire(self, timer: DueTimer) -> None:
        try:
            with structlog.contextvars.bound_contextvars(request_id=f"{timer.kind}:{timer.subject_id}"):
                outcome = await self._attempt(timer)
            OUTCOMES.labels(timer.kind, outcome).inc()
        except AWAY:
            self._stranded.append(timer)
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
        except Exception as error:  # noqa: BLE001 - the timer's fault is whatever its handler raises
            await self._fail(timer, error)
            return "failed"
        LAG_SECONDS.labels(timer.kind).observe(max(0.0, late_seconds))
        return "fired"

    async def _apply(self, db: Db, timer: DueTimer) -> float:
        if not await timers.take_up(db, timer):
            raise Overtaken
        await self._handlers[timer.kind](db, timer.subject_id)
        late_seconds = await timers.put_away(db, timer)
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
        if not self._stranded:
            return
        try:
            await self._database.run(lambda db: timers.give_back(db, self._stranded))
        except AWAY as error:  # their leases run out by themselves
            log.warning("timers_left", count=len(self._stranded), reason=type(error).__name__)
