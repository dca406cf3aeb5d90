"""Takes deliveries, applies each once, and tells a bad message from a bad day.

A *message fault* (this message cannot be handled) counts: retried a few times, later and later, then a dead
letter. An *infrastructure fault* (database, Redis or broker away) counts nothing: the consumer keeps what it
has in hand and waits. Messages are acknowledged after the commit.
"""

import asyncio
import random
from collections.abc import Sequence

import structlog
from prometheus_client import Counter, Histogram

from catraca.platform.bus.handlers import QueueHandlers, Unreadable
from catraca.platform.bus.message import Delivery
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.bus.transport import BusAway, Subscription, Transport
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database, Db
from catraca.platform.errors import Busy, DatabaseUnavailable, OutcomeUnknown, Refusal
from catraca.platform.redis_client import RedisAway
from catraca.platform.waiting import within

log = structlog.get_logger()

AWAY = (Busy, DatabaseUnavailable, OutcomeUnknown, RedisAway, BusAway)
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# A message that finds the database busy or away this often, while it answers others, is itself the trouble.
BUSY_AT_MOST = 20

OUTCOMES = Counter(
    "catraca_bus_messages_total", "Messages taken from queues, by what became of them.", ["queue", "outcome"]
)
HANDLER_SECONDS = Histogram(
    "catraca_bus_handler_seconds",
    "From taking messages up to their commit, for one transaction.",
    ["queue"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
PAUSES = Counter("catraca_bus_pauses_total", "Times a consumer waited because a server was away.", ["queue"])


class Consumer:
    """One queue's consumer in this process; `run` until told to stop, then finish what is in hand."""

    def __init__(
        self,
        queue: Queue,
        handlers: QueueHandlers,
        *,
        topology: Topology,
        transport: Transport,
        database: Database,
        hands: asyncio.Semaphore | None = None,
    ) -> None:
        """`hands` bounds the transactions of all consumers together, so that others get connections too."""
        self._queue = queue
        self._handlers = handlers
        self._delays = topology.retry_delays_seconds
        self._transport = transport
        self._database = database
        self._hands = hands or asyncio.Semaphore(queue.concurrency)
        self._stopping = asyncio.Event()

    async def run(self, stopping: asyncio.Event) -> None:
        """Handle messages until `stopping` is set; what is not done by then is given back."""
        subscription = await self._transport.subscribe(self._queue, when_ready=self._database.is_up)
        # Side by side, two events of one aggregate could overtake each other.
        side_by_side = 1 if self._queue.single_active else self._queue.concurrency
        workers = [asyncio.create_task(self._work(subscription)) for _ in range(side_by_side)]
        asked = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([asked, *workers], return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            subscription.stop_taking()
            await asyncio.gather(*workers)
        finally:
            for task in (asked, *workers):
                task.cancel()
            await asyncio.gather(asked, *workers, return_exceptions=True)
            await subscription.close()

    async def _work(self, subscription: Subscription) -> None:
        while taken := await subscription.next(self._queue.batch):
            fresh = [delivery for delivery in taken if not _is_stale(delivery)]
            if len(fresh) > 1 and await self._handled_together(subscription, fresh):
                taken = [delivery for delivery in taken if delivery not in fresh]
            for delivery in taken:
                if not await self._handle(subscription, delivery):
                    return

    async def _handled_together(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> bool:
        """All in one transaction; if anything at all is wrong, False, and each is taken by itself."""
        if any(delivery.unreadable for delivery in deliveries):
            return False
        try:
            await self._apply(subscription, deliveries)
        except Exception:  # noqa: BLE001 - whatever it is, it comes again for the one message it belongs to
            return False
        return True

    async def _handle(self, subscription: Subscription, delivery: Delivery) -> bool:
        """Until something has become of it, through any outage; False when it is time to stop instead."""
        pauses = blamed = 0
        fault: Exception | None = None
        while not delivery.lapsed:
            try:
                if fault is None:
                    await self._settle(subscription, delivery)
                else:
                    await self._fault(subscription, delivery, fault)
            except AWAY as error:
                pauses += 1
                PAUSES.labels(self._queue.name).inc()
                if not await self._pause(pauses):
                    return False
                blamed += isinstance(error, Refusal) and await self._database.is_up()
                if blamed >= BUSY_AT_MOST:
                    fault = error
            else:
                return True
        OUTCOMES.labels(self._queue.name, "lapsed").inc()
        return True

    async def _settle(self, subscription: Subscription, delivery: Delivery) -> None:
        if _is_stale(delivery):
            await self._drop(subscription, delivery, "stale")
        elif delivery.unreadable is not None:
            await self._give_up(subscription, delivery, delivery.unreadable)
        else:
            try:
                await self._apply(subscription, [delivery])
            except Unreadable as error:
                await self._give_up(subscription, delivery, _reason(error), error)
            except AWAY:
                raise
            except Exception as error:  # noqa: BLE001 - a message fault is whatever its handler raises
                await self._fault(subscription, delivery, error)

    async def _apply(self, subscription: Subscription, deliveries: Sequence[Delivery]) -> None:

        async def work(db: Db) -> int:
            admitted = await subscription.admit(db, deliveries)
            for delivery in admitted:
                with structlog.contextvars.bound_contextvars(request_id=delivery.message.headers.trace):
                    await self._handlers.run(db, delivery.message)
            return len(admitted)

        async with self._hands:
            began = monotonic_seconds()
            applied = await self._database.run(work)
        HANDLER_SECONDS.labels(self._queue.name).observe(monotonic_seconds() - began)
        OUTCOMES.labels(self._queue.name, "applied").inc(applied)
        if repeated := len(deliveries) - applied:
            OUTCOMES.labels(self._queue.name, "repeated").inc(repeated)
        await subscription.done(deliveries)

    async def _fault(self, subscription: Subscription, delivery: Delivery, error: Exception) -> None:
        message, retries = delivery.message, delivery.message.headers.retries
        if retries >= len(self._delays) or self._queue.transient_seconds is not None:
            await self._give_up(subscription, delivery, _reason(error), error)
            return
        log.warning(
            "message_retried",
            queue=self._queue.name,
            key=message.key,
            message_id=message.id,
            retries=retries + 1,
            exc_info=error,
        )
        await subscription.retry(delivery, delay_seconds=self._delays[retries])
        OUTCOMES.labels(self._queue.name, "retried").inc()

    async def _give_up(
        self, subscription: Subscription, delivery: Delivery, reason: str, error: Exception | None = None
    ) -> None:
        log.error(
            "message_dead",
            queue=self._queue.name,
            key=delivery.message.key,
            message_id=delivery.message.id,
            reason=reason,
            exc_info=error,
        )
        if self._queue.transient_seconds is not None:
            await self._drop(subscription, delivery, "dropped")
        elif self._queue.dead_letters_to is not None:
            await subscription.dead_letter(delivery, reason=reason)
            OUTCOMES.labels(self._queue.name, "dead").inc()
        else:  # It stays; tried for ever, but seldom, so that it does not turn in circles.
            await subscription.retry(delivery, delay_seconds=self._delays[-1])
            OUTCOMES.labels(self._queue.name, "retried").inc()

    async def _drop(self, subscription: Subscription, delivery: Delivery, outcome: str) -> None:
        await subscription.done([delivery])
        OUTCOMES.labels(self._queue.name, outcome).inc()

    async def _pause(self, count: int) -> bool:
        """Wait for better times; False when it is time to stop instead."""
        seconds = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(count, 10))
        return not await within(seconds * random.uniform(0.5, 1), self._stopping)  # noqa: S311


def _is_stale(delivery: Delivery) -> bool:
    return delivery.stale_at <= monotonic_seconds()


def _reason(error: Exception) -> str:
    """A code, never the error's words: those quote values."""
    return error.code if isinstance(error, Refusal) else type(error).__name__
