"""Many messages, one statement: taken singly, prepared side by side, written in batches.

    handles = BatchHandlers(queue="raffle_queue", keys={"raffle_queue"}, prepare=read, write=write_all)

*Processors* prepare each message (decode it, check it); what they refuse is that message's own fault. What is
prepared fills a batch until it is full or old enough, and *batchers* write batches, each in a transaction of
its own in which its messages also leave the queue. `write` may name single messages as faulty; where it
raises, the batch is halved until the bad one stands alone. A server that is away pauses everything.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from prometheus_client import Histogram

from catraca.platform.bus.message import Delivery, Message
from catraca.platform.bus.outage_retry import AWAY, Stopped
from catraca.platform.bus.outcome import HANDLER_SECONDS, OUTCOMES, Settling, Verdicts
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.bus.transport import Subscription, Transport
from catraca.platform.clock import monotonic_seconds
from catraca.platform.database import Database, Db

T = TypeVar("T")

# How many messages are shared out among processors before others have a turn.
TAKEN_AT_ONCE = 100

BATCH_SIZES = Histogram(
    "catraca_bus_batch_messages",
    "Messages written together.",
    ["queue"],
    buckets=(1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500),
)
LATENCY_SECONDS = Histogram(
    "catraca_bus_latency_seconds",
    "From publishing a message to the commit of its batch, of the oldest message in each batch.",
    ["queue"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 2, 5, 15, 60, 300, 1800),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHandlers(Generic[T]):
    """What one queue's messages are turned into, and how many of these are written at once."""

    queue: str
    keys: Collection[str] | None
    # Raises what is wrong with the message; `Unreadable` where no retry will change that.
    prepare: Callable[[Message], Awaitable[T]]
    # In an open transaction; answers what is wrong with which, by place. It never commits.
    write: Callable[[Db, Sequence[T]], Awaitable[Mapping[int, Exception]]]


class Batching(Generic[T]):
    """One queue's pipeline in this process; `run` until told to stop, then finish what is in hand."""

    def __init__(
        self,
        queue: Queue,
        handlers: BatchHandlers[T],
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
        settling = Settling(
            self._queue,
            subscription,
            topology=self._topology,
            database=self._database,
            stopping=self._stopping,
        )
        filling = Filling[T](self._queue.batch, seconds=self._queue.fill_seconds)
        taking = asyncio.create_task(self._take(subscription, settling, filling))
        batchers = [
            asyncio.create_task(self._write_batches(subscription, settling, filling))
            for _ in range(self._queue.concurrency)
        ]
        asked = asyncio.create_task(stopping.wait())
        try:
            await asyncio.wait([asked, taking, *batchers], return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            subscription.stop_taking()
            await taking
            filling.close()
            await asyncio.gather(*batchers)
        finally:
            for task in (asked, taking, *batchers):
                task.cancel()
            await asyncio.gather(asked, taking, *batchers, return_exceptions=True)
            await subscription.close()

    async def _take(self, subscription: Subscription, settling: Settling, filling: "Filling[T]") -> None:
        """Share out what arrives among the processors that are free."""
        try:
            await self._share_out(subscription, settling, filling)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group

    async def _share_out(self, subscription: Subscription, settling: Settling, filling: "Filling[T]") -> None:
        busy: set[asyncio.Task[None]] = set()
        async with asyncio.TaskGroup() as processors:
            while True:
                if len(busy) == self._queue.processors:
                    await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
                # What is transient leaves the queue when it is taken: no prefetch bounds it after that.
                await filling.until_below(self._queue.prefetch)
                taken = await subscription.next(TAKEN_AT_ONCE)
                if not taken:
                    return
                shares = min(len(taken), self._queue.processors - len(busy))
                for place in range(shares):
                    share = taken[place::shares]
                    task = processors.create_task(self._process(share, settling, filling))
                    busy.add(task)
                    task.add_done_callback(busy.discard)

    async def _process(self, share: Sequence[Delivery], settling: Settling, filling: "Filling[T]") -> None:
        for delivery in share:
            try:
                await self._prepare(delivery, settling, filling)
            except Stopped:
                return

    async def _prepare(self, delivery: Delivery, settling: Settling, filling: "Filling[T]") -> None:
        if delivery.unreadable is not None:
            await settling.bury(delivery)
            return
        try:
            try:
                value = await self._handlers.prepare(delivery.message)
            except AWAY:
                value = await settling.through(lambda: self._handlers.prepare(delivery.message))
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - a message fault is whatever its handler raises
            await settling.fault(delivery, error)
        else:
            filling.add(delivery, value)

    async def _write_batches(
        self, subscription: Subscription, settling: Settling, filling: "Filling[T]"
    ) -> None:
        while batch := await filling.next():
            try:
                await settling.settle(
                    list(batch), lambda some, batch=batch: self._apply(subscription, some, batch)
                )
            except Stopped:
                return
            finally:
                filling.let_go(len(batch))

    async def _apply(
        self, subscription: Subscription, deliveries: Sequence[Delivery], values: Mapping[Delivery, T]
    ) -> None:

        async def work(db: Db) -> Sequence[Delivery]:
            admitted = await subscription.admit(db, deliveries)
            if admitted and (faults := await self._handlers.write(db, [values[one] for one in admitted])):
                # Nothing may be committed: on leaving the queue, the faulty ones would be lost.
                raise Verdicts({admitted[place]: error for place, error in faults.items()})
            return admitted

        async with self._hands:
            began = monotonic_seconds()
            admitted = await self._database.run(work)
        name = self._queue.name
        HANDLER_SECONDS.labels(name).observe(monotonic_seconds() - began)
        BATCH_SIZES.labels(name).observe(len(deliveries))
        OUTCOMES.labels(name, "applied").inc(len(admitted))
        if lapsed := len(deliveries) - len(admitted):
            OUTCOMES.labels(name, "repeated").inc(lapsed)
        sent = [one.message.headers.sent_at for one in admitted if one.message.headers.sent_at is not None]
        if sent:
            LATENCY_SECONDS.labels(name).observe(max(0.0, time.time() - min(sent) / 1000))


class Filling(Generic[T]):
    """Gathers what is prepared into batches: full ones, or as old as they may get."""

    def __init__(self, size: int, *, seconds: float) -> None:
        self._size = size
        self._seconds = seconds
        self._open: dict[Delivery, T] = {}
        self._timer: asyncio.TimerHandle | None = None
        # What was added and is not done with.
        self._held = 0
        self._let_go = asyncio.Event()
        # Bounded by what one process may hold of a queue.
        self._batches: asyncio.Queue[Mapping[Delivery, T]] = asyncio.Queue()

    async def until_below(self, most: int) -> None:
        while self._held >= most:
            self._let_go.clear()
            await self._let_go.wait()

    def let_go(self, count: int) -> None:
        """So many of a batch are done with, or given up."""
        self._held -= count
        self._let_go.set()

    def add(self, delivery: Delivery, value: T) -> None:
        self._open[delivery] = value
        self._held += 1
        if len(self._open) >= self._size:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._flush)

    async def next(self) -> Mapping[Delivery, T]:
        """Wait for a batch; empty when there will be no more."""
        batch = await self._batches.get()
        if not batch:
            self.close()  # for the others who wait
        return batch

    def close(self) -> None:
        """What there is goes as it is, and then nothing more."""
        self._flush()
        self._batches.put_nowait({})

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._open:
            self._batches.put_nowait(self._open)
            self._open = {}
