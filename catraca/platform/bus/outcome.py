"""Sees to it that something becomes of every delivery, and tells a bad message from a bad day.

A *message fault* (this message cannot be handled) counts: retried a few times, later and later, then a dead
letter. An *infrastructure fault* (database, Redis or broker away) counts nothing: what is in hand is kept,
and waits. Messages are acknowledged after the commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import structlog
from prometheus_client import Counter, Histogram

from catraca.platform.bus.handlers import Unreadable
from catraca.platform.bus.message import Delivery
from catraca.platform.bus.outage_retry import Patience, Stopped
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.bus.transport import Subscription
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database

log = structlog.get_logger()

OUTCOMES = Counter(
    "catraca_bus_messages_total", "Messages taken from queues, by what became of them.", ["queue", "outcome"]
)
FAULTS = Counter(
    "catraca_bus_faults_total", "Messages that could not be handled, by the reason.", ["queue", "reason"]
)
HANDLER_SECONDS = Histogram(
    "catraca_bus_handler_seconds",
    "From taking messages up to their commit, for one transaction.",
    ["queue"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
PAUSES = Counter("catraca_bus_pauses_total", "Times a consumer waited because a server was away.", ["queue"])

T = TypeVar("T")
Apply = Callable[[Sequence[Delivery]], Awaitable[None]]


class Verdicts(Exception):
    """Of these deliveries some cannot be applied, each for its reason; nothing was committed."""

    def __init__(self, faults: Mapping[Delivery, Exception]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults


class Settling:
    """Of one subscription's deliveries. Everything here raises `Stopped` when it is time to stop instead."""

    def __init__(
        self,
        queue: Queue,
        subscription: Subscription,
        *,
        topology: Topology,
        database: Database,
        stopping: asyncio.Event,
    ) -> None:
        self._queue = queue
        self._subscription = subscription
        self._delays_seconds = topology.delays_of(queue)
        self._patience = Patience(database, stopping, paused=PAUSES.labels(queue.name).inc)

    async def settle(self, deliveries: Sequence[Delivery], apply: Apply) -> None:
        """Apply them, all in one transaction if it goes; else in halves, and halves of those.

        `apply` commits all or raises. One bad message so costs a few transactions, and never its neighbours.
        """
        readable = [delivery for delivery in deliveries if delivery.unreadable is None]
        parts = [readable] if readable else []
        for delivery in deliveries if len(readable) < len(deliveries) else ():
            if delivery.unreadable is not None:
                await self.bury(delivery)
        while parts:
            part = parts.pop()
            try:
                applied = await self._patience.through(lambda part=part: _apply_living(part, apply))
            except Stopped:
                raise
            except Verdicts as verdicts:
                for delivery, error in verdicts.faults.items():
                    await self.fault(delivery, error)
                parts.append([delivery for delivery in part if delivery not in verdicts.faults])
            except Exception as error:  # noqa: BLE001 - a message fault is whatever its handler raises
                if len(part) == 1:
                    await self.fault(part[0], error)
                else:  # the first half first: order is kept
                    half = (len(part) + 1) // 2
                    parts += [part[half:], part[:half]]
            else:
                await self._subscription.done(applied)
                await self._see_off(part, applied)

    async def bury(self, delivery: Delivery) -> None:
        """A delivery that its transport found unreadable."""
        await self.fault(delivery, Unreadable(delivery.unreadable or "unreadable"))

    async def through(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it, through any outage."""
        return await self._patience.through(work)

    async def fault(self, delivery: Delivery, error: Exception) -> None:
        """This message cannot be handled: try it again later, or give it up."""
        await self._patience.through(lambda: self._fault(delivery, error))

    async def _see_off(self, part: Sequence[Delivery], applied: Sequence[Delivery]) -> None:
        """Those that were no longer ours, or no longer news."""
        for delivery in part if len(applied) < len(part) else ():
            if delivery.lapsed:
                OUTCOMES.labels(self._queue.name, "lapsed").inc()
            elif delivery not in applied:
                await self._drop(delivery, "stale")

    async def _fault(self, delivery: Delivery, error: Exception) -> None:
        if delivery.lapsed:
            OUTCOMES.labels(self._queue.name, "lapsed").inc()
            return
        if _is_stale(delivery):
            await self._drop(delivery, "stale")
            return
        retries, reason = delivery.message.headers.retries, reason_of(error)
        is_final = isinstance(error, Unreadable) or self._queue.transient_seconds is not None
        if is_final or retries >= len(self._delays_seconds):
            await self._give_up(delivery, reason, error)
        else:
            await self._subscription.retry(
                delivery, delay_seconds=self._delays_seconds[retries], reason=reason
            )
            self._tell("retried", delivery, reason, error)
            FAULTS.labels(self._queue.name, reason).inc()

    async def _give_up(self, delivery: Delivery, reason: str, error: Exception) -> None:
        if self._queue.transient_seconds is not None:
            await self._drop(delivery, "dropped")
        elif self._queue.dead_letters_to is not None:
            await self._subscription.dead_letter(delivery, reason=reason)
            self._tell("dead", delivery, reason, error)
        else:  # It stays; tried for ever, but seldom, so that it does not turn in circles.
            await self._subscription.retry(delivery, delay_seconds=self._delays_seconds[-1], reason=reason)
            self._tell("retried", delivery, reason, error)
        FAULTS.labels(self._queue.name, reason).inc()

    async def _drop(self, delivery: Delivery, outcome: str) -> None:
        await self._subscription.done([delivery])
        OUTCOMES.labels(self._queue.name, outcome).inc()

    def _tell(self, outcome: str, delivery: Delivery, reason: str, error: Exception) -> None:
        OUTCOMES.labels(self._queue.name, outcome).inc()
        message = delivery.message
        (log.error if outcome == "dead" else log.warning)(
            f"message_{outcome}",
            queue=self._queue.name,
            key=message.key,
            message_id=message.id,
            retries=message.headers.retries,
            reason=reason,
            exc_info=error,
        )


async def _apply_living(part: Sequence[Delivery], apply: Apply) -> Sequence[Delivery]:
    """Looked at anew at each try: a broker may have taken some back meanwhile, and news grows old."""
    living = [delivery for delivery in part if not (delivery.lapsed or _is_stale(delivery))]
    if living:
        await apply(living)
    return living


def _is_stale(delivery: Delivery) -> bool:
    return delivery.stale_at <= monotonic_seconds()


def reason_of(error: Exception) -> str:
    """A code, never the error's words: those quote values."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else type(error).__name__
