"""Takes deliveries and applies each once, in the handler's transaction."""

import asyncio
from collections.abc import Sequence

import structlog

from catraca.platform.bus.handlers import QueueHandlers
from catraca.platform.bus.message import Delivery
from catraca.platform.bus.outage_retry import Stopped
from catraca.platform.bus.outcome import HANDLER_SECONDS, OUTCOMES, Settling
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.bus.transport import Subscription, Transport
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database, Db


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
        self._topology = topology
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
        settling = Settling(
            self._queue,
            subscription,
            topology=self._topology,
            database=self._database,
            stopping=self._stopping,
        )

        async def apply(deliveries: Sequence[Delivery]) -> None:
            await self._apply(subscription, deliveries)

        while taken := await subscription.next(self._queue.batch):
            try:
                await settling.settle(taken, apply)
            except Stopped:
                return

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
