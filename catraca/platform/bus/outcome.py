"""Decides the outcome of each delivery, and distinguishes a faulty message from an outage.

A *message fault* (this message cannot be handled) counts: the message is retried a few times with growing
delays, then it is a dead letter. An *outage* (database, Redis or broker away) does not count: the consumer
keeps its messages and waits. Messages are acknowledged after the commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

import structlog
from prometheus_client import Counter, Histogram

from catraca.platform.bus.handlers import HandleAlone, Unreadable
from catraca.platform.bus.message import Delivery
from catraca.platform.bus.outage_retry import OutageRetry, Stopped
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.bus.transport import Subscription
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database

log = structlog.get_logger()

OUTCOMES = Counter(
    "catraca_bus_messages_total", "Messages taken from queues, by outcome.", ["queue", "outcome"]
)
FAULTS = Counter(
    "catraca_bus_faults_total", "Messages that could not be handled, by reason.", ["queue", "reason"]
)
HANDLER_SECONDS = Histogram(
    "catraca_bus_handler_seconds",
    "Duration of one transaction, from its start to its commit.",
    ["queue"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
BATCH_SIZES = Histogram(
    "catraca_bus_batch_messages",
    "Messages written in one transaction.",
    ["queue"],
    buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500),
)
LATENCY_SECONDS = Histogram(
    "catraca_bus_latency_seconds",
    "From publishing a message to the commit of its batch, of the oldest message in each batch.",
    ["queue"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 2, 5, 15, 60, 300, 1800),
)
PAUSES = Counter(
    "catraca_bus_pauses_total", "Times a consumer waited because a server was unavailable.", ["queue"]
)

T = TypeVar("T")
Apply = Callable[[Sequence[Delivery]], Awaitable[None]]


class BatchFaults(Exception):
    """Some deliveries of a batch cannot be applied, each with its error; nothing was committed."""

    def __init__(self, faults: Mapping[Delivery, Exception]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults


class DeliverySettler:
    """Settles the deliveries of one subscription. Every method raises `Stopped` if it is time to stop."""

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
        self._retry = OutageRetry(database, stopping, on_pause=PAUSES.labels(queue.name).inc)

    async def settle(self, deliveries: Sequence[Delivery], apply: Apply) -> None:
        """Apply all in one transaction; if that fails, in halves, and halves of those.

        `apply` commits all or raises. So a faulty message costs a few transactions and never its neighbours.
        """
        parts = [deliveries]
        while parts:
            part = parts.pop()
            try:
                applied = await self._retry.run(lambda part=part: _apply_current(part, apply))
            except Stopped:
                raise
            except BatchFaults as batch:
                for delivery, error in batch.faults.items():
                    await self.fault(delivery, error)
                parts.append([delivery for delivery in part if delivery not in batch.faults])
            except Exception as error:  # noqa: BLE001 - any error of a handler is a message fault
                if len(part) == 1:
                    await self.fault(part[0], error)
                else:
                    alone = error.message_ids if isinstance(error, HandleAlone) else ()
                    parts += reversed(_smaller_parts(part, alone))
            else:
                await self._subscription.done(applied)
                await self._settle_skipped(part, applied)

    async def through_outages(self, work: Callable[[], Awaitable[T]]) -> T:
        return await self._retry.run(work)

    async def fault(self, delivery: Delivery, error: Exception) -> None:
        """Retry the message later, or give it up if it has no retries left."""
        await self._retry.run(lambda: self._fault(delivery, error))

    async def _settle_skipped(self, part: Sequence[Delivery], applied: Sequence[Delivery]) -> None:
        """Deliveries that lapsed or became stale before they could be applied."""
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
            self._report("retried", delivery, reason, error)
            FAULTS.labels(self._queue.name, reason).inc()

    async def _give_up(self, delivery: Delivery, reason: str, error: Exception) -> None:
        if self._queue.transient_seconds is not None:
            await self._drop(delivery, "dropped")
        elif self._queue.dead_letters_to is not None:
            await self._subscription.dead_letter(delivery, reason=reason)
            self._report("dead", delivery, reason, error)
        else:  # The message stays and is retried for ever, with the longest delay.
            await self._subscription.retry(delivery, delay_seconds=self._delays_seconds[-1], reason=reason)
            self._report("retried", delivery, reason, error)
        FAULTS.labels(self._queue.name, reason).inc()

    async def _drop(self, delivery: Delivery, outcome: str) -> None:
        await self._subscription.done([delivery])
        OUTCOMES.labels(self._queue.name, outcome).inc()

    def _report(self, outcome: str, delivery: Delivery, reason: str, error: Exception) -> None:
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


async def _apply_current(part: Sequence[Delivery], apply: Apply) -> Sequence[Delivery]:
    """Apply what is neither lapsed nor stale; checked at each try, because an outage takes time."""
    current = [delivery for delivery in part if not (delivery.lapsed or _is_stale(delivery))]
    if current:
        await apply(current)
    return current


def _smaller_parts(part: Sequence[Delivery], alone: Collection[UUID]) -> list[Sequence[Delivery]]:
    """The two halves; or, if some messages are to be handled `alone`, the others and then each of these."""
    others = [delivery for delivery in part if delivery.message.id not in alone]
    if len(others) < len(part):
        return [others, *([delivery] for delivery in part if delivery.message.id in alone)]
    half = (len(part) + 1) // 2
    return [part[:half], part[half:]]


def _is_stale(delivery: Delivery) -> bool:
    return delivery.stale_at <= monotonic_seconds()


def reason_of(error: Exception) -> str:
    """A code, never the error's text: it may quote personal data."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else type(error).__name__
