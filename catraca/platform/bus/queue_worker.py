"""Consumes one queue: takes messages, prepares each by itself, writes them in batches.

*Processors* prepare single messages. Prepared messages fill a batch until it has `queue.batch` messages or is
`queue.fill_seconds` old; a message that must be handled alone is a batch of its own. *Writers* apply batches,
each in one transaction, in which its messages also leave the queue if the queue is in the same database. A
queue with `batch=1` has one transaction per message.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from catraca.platform.bus.handlers import QueueHandlers, Unreadable
from catraca.platform.bus.message import Delivery
from catraca.platform.bus.outage_retry import AWAY, Stopped
from catraca.platform.bus.outcome import (
    BATCH_SIZES,
    HANDLER_SECONDS,
    LATENCY_SECONDS,
    OUTCOMES,
    BatchFaults,
    DeliverySettler,
)
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.bus.transport import Subscription, Transport
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database, Db, GenericPlans

T = TypeVar("T")

# Messages taken between two turns of the event loop, at most.
TAKEN_AT_ONCE = 100


class QueueWorker(Generic[T]):
    """The consumer of one queue in this process. `run` it once."""

    _subscription: Subscription
    _settler: DeliverySettler

    def __init__(
        self,
        queue: Queue,
        handlers: QueueHandlers[T],
        *,
        topology: Topology,
        transport: Transport,
        database: Database,
        slots: asyncio.Semaphore | None = None,
    ) -> None:
        """`slots` limits the open transactions of all workers together, so that others get connections."""
        self._queue = queue
        self._handlers = handlers
        self._topology = topology
        self._transport = transport
        self._database = database
        # In parallel, two events of one aggregate could overtake each other.
        self._writers = 1 if queue.single_active else queue.concurrency
        self._slots = slots or asyncio.Semaphore(self._writers)
        self._hooks = GenericPlans() if queue.plans_once else None
        self._stopping = asyncio.Event()
        self._buffer = BatchBuffer[T](
            queue.batch,
            fill_seconds=queue.fill_seconds,
            # Without a wait for full batches, only what a free writer can start at once is taken.
            capacity=queue.prefetch if queue.fill_seconds else queue.batch * self._writers,
        )

    async def run(self, stopping: asyncio.Event) -> None:
        """Handle messages until `stopping` is set. Started transactions finish; the rest is given back."""
        self._subscription = await self._transport.subscribe(self._queue, when_ready=self._database.is_up)
        self._settler = DeliverySettler(
            self._queue,
            self._subscription,
            topology=self._topology,
            database=self._database,
            stopping=self._stopping,
        )
        taker = asyncio.create_task(self._take())
        writers = [asyncio.create_task(self._write_batches()) for _ in range(self._writers)]
        stop = asyncio.create_task(stopping.wait())
        tasks: list[asyncio.Task[Any]] = [stop, taker, *writers]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            self._subscription.stop_taking()
            self._buffer.stop_waiting()
            await taker
            self._buffer.close()
            await asyncio.gather(*writers)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._subscription.close()

    async def _take(self) -> None:
        try:
            await self._take_all()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group

    async def _take_all(self) -> None:
        """Take messages and divide them among the free processors, until the subscription ends."""
        busy: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as processors:
            while True:
                if len(busy) == self._queue.processors:
                    await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
                limit = min(TAKEN_AT_ONCE, await self._buffer.room())
                taken = await self._subscription.next(limit)
                if not taken:
                    return
                self._buffer.reserve(len(taken))
                shares = min(len(taken), self._queue.processors - len(busy))
                for place in range(shares):
                    task = processors.create_task(self._process(taken[place::shares]))
                    busy.add(task)
                    task.add_done_callback(busy.discard)

    async def _process(self, share: Sequence[Delivery]) -> None:
        for delivery in share:
            try:
                await self._prepare(delivery)
            except Stopped:
                return

    async def _prepare(self, delivery: Delivery) -> None:
        try:
            value = await self._value_of(delivery)
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - any error of a handler is a message fault
            await self._settler.fault(delivery, error)
            self._buffer.release(1)
        else:
            self._buffer.add(delivery, value, alone=self._handlers.is_alone(value))

    async def _value_of(self, delivery: Delivery) -> T:
        if delivery.unreadable is not None:
            raise Unreadable(delivery.unreadable)
        try:
            return await self._handlers.prepare(delivery.message)
        except AWAY:
            return await self._settler.through_outages(lambda: self._handlers.prepare(delivery.message))

    async def _write_batches(self) -> None:
        while batch := await self._buffer.next():
            try:
                await self._settler.settle(list(batch), lambda part, batch=batch: self._apply(part, batch))
            except Stopped:
                return
            finally:
                self._buffer.release(len(batch))

    async def _apply(self, deliveries: Sequence[Delivery], values: Mapping[Delivery, T]) -> None:
        """Write these messages in one transaction."""

        async def work(db: Db) -> Sequence[Delivery]:
            admitted = await self._subscription.admit(db, deliveries)
            if admitted and (faults := await self._handlers.write(db, [values[one] for one in admitted])):
                # Roll back: a commit would also remove the faulty messages from their queue.
                raise BatchFaults({admitted[place]: error for place, error in faults.items()})
            return admitted

        async with self._slots:
            began = monotonic_seconds()
            admitted = await self._database.run(work, self._hooks)
        name = self._queue.name
        HANDLER_SECONDS.labels(name).observe(monotonic_seconds() - began)
        BATCH_SIZES.labels(name).observe(len(deliveries))
        OUTCOMES.labels(name, "applied").inc(len(admitted))
        if repeated := len(deliveries) - len(admitted):
            OUTCOMES.labels(name, "repeated").inc(repeated)
        sent = [one.message.headers.sent_at for one in admitted if one.message.headers.sent_at is not None]
        if sent:
            LATENCY_SECONDS.labels(name).observe(max(0.0, time.time() - min(sent) / 1000))


class BatchBuffer(Generic[T]):
    """Collects prepared messages into batches. A batch is complete when it is full or old enough.

    `capacity` limits the messages that were taken and are not settled: a transient message leaves its queue
    when it is taken, so the queue's own prefetch does not limit them.
    """

    def __init__(self, size: int, *, fill_seconds: float, capacity: int) -> None:
        self._size = size
        self._fill_seconds = fill_seconds
        self._open: dict[Delivery, T] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._room = capacity
        self._released = asyncio.Event()
        self._stopping = False
        # Bounded by `capacity`.
        self._batches: asyncio.Queue[Mapping[Delivery, T]] = asyncio.Queue()

    async def room(self) -> int:
        """Wait until there is room; return for how many messages, at least one."""
        while self._room <= 0 and not self._stopping:
            self._released.clear()
            await self._released.wait()
        return max(1, self._room)

    def stop_waiting(self) -> None:
        """No more messages will be taken."""
        self._stopping = True
        self._released.set()

    def reserve(self, count: int) -> None:
        self._room -= count

    def release(self, count: int) -> None:
        """This many reserved messages are settled or given back."""
        self._room += count
        self._released.set()

    def add(self, delivery: Delivery, value: T, *, alone: bool = False) -> None:
        if alone:
            self._flush()
            self._batches.put_nowait({delivery: value})
            return
        self._open[delivery] = value
        if len(self._open) >= self._size:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._fill_seconds, self._flush)

    async def next(self) -> Mapping[Delivery, T]:
        """Wait for a batch. Empty after `close`, when there are no more."""
        batch = await self._batches.get()
        if not batch:
            self.close()  # for the other writers
        return batch

    def close(self) -> None:
        """Complete the open batch as it is; no more follow."""
        self._flush()
        self._batches.put_nowait({})

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open:
            self._batches.put_nowait(self._open)
            self._open = {}
