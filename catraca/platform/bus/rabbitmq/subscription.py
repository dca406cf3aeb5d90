"""Consumes one queue through any outage: one session after another, each checked every few seconds."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import structlog
from prometheus_client import Counter

from catraca.platform.bus.message import Delivery, each_once
from catraca.platform.bus.rabbitmq.codec import Address
from catraca.platform.bus.rabbitmq.connection import Link
from catraca.platform.bus.rabbitmq.publisher import Publisher
from catraca.platform.bus.rabbitmq.session import Session
from catraca.platform.bus.topology import Queue
from catraca.platform.bus.transport import BusAway
from catraca.platform.database import Db, inbox
from catraca.platform.pauses import backoff_seconds, within

log = structlog.get_logger()

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0
WATCH_SECONDS = 3.0
CLOSE_SECONDS = 5.0

RECYCLED = Counter(
    "catraca_bus_consumers_recycled_total",
    "Consumers restarted because RabbitMQ had forgotten them without an error.",
    ["queue"],
)


class RabbitMqSubscription:
    """Holds deliveries, up to the queue's prefetch, until `next` returns them."""

    def __init__(
        self, queue: Queue, link: Link, publisher: Publisher, when_ready: Callable[[], Awaitable[bool]]
    ) -> None:
        self._queue = queue
        self._link = link
        self._publisher = publisher
        self._when_ready = when_ready
        self._session: Session | None = None
        self._waiting: deque[Delivery] = deque()
        self._changed = asyncio.Event()
        self._stop = asyncio.Event()
        self._consuming = asyncio.create_task(self._consume(), name=f"consume {queue.name}")
        self._consuming.add_done_callback(lambda _: self._changed.set())

    async def next(self, limit: int) -> list[Delivery]:
        while not self._stopping:
            if taken := self._take(limit):
                if self._queue.transient_seconds is not None:
                    await self.done(taken)  # a transient message is delivered once
                return taken
            if self._consuming.done():
                self._consuming.result()  # raises, if a queue on the broker differs from ours
            self._changed.clear()
            await self._changed.wait()
        return []

    async def admit(self, db: Db, deliveries: Sequence[Delivery]) -> list[Delivery]:
        ours = [delivery for delivery in deliveries if not delivery.lapsed]
        if self._queue.transient_seconds is not None or not self._queue.remembers:
            return ours
        ids = [delivery.message.id for delivery in ours]
        return each_once(ours, await inbox.insert_new(db, self._queue.name, ids))

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        if self._session is not None:
            await self._session.acknowledge(deliveries)

    async def retry(self, delivery: Delivery, *, delay_seconds: float, reason: str) -> None:
        if self._holds(delivery):
            await self._publisher.put_off(
                delivery.message.again(reason), self._queue, delay_seconds=delay_seconds
            )
            await self.done([delivery])

    async def dead_letter(self, delivery: Delivery, *, reason: str) -> None:
        exchange = self._queue.dead_letters_to
        if exchange is None:
            await self.give_back([delivery])
        elif self._holds(delivery):
            message = delivery.message.with_headers(queue=self._queue.name, reason=reason)
            await self._publisher.put(message, Address(exchange, self._queue.dead_letter_key_of(message.key)))
            await self.done([delivery])

    async def give_back(self, deliveries: Sequence[Delivery]) -> None:
        if self._session is None:
            return
        if self._queue.single_active:
            await self._session.close()  # all together: one alone would return behind later ones
        else:
            await self._session.give_back(deliveries)

    def stop_taking(self) -> None:
        """`_consume` gives back the waiting deliveries, after the broker has stopped delivering."""
        self._stop.set()
        self._changed.set()

    async def close(self) -> None:
        self.stop_taking()
        await asyncio.wait([self._consuming], timeout=CLOSE_SECONDS)
        self._consuming.cancel()
        await asyncio.gather(self._consuming, return_exceptions=True)
        if self._session is not None:
            await self.give_back(self._session.in_hand)
            await self._session.close()

    @property
    def _stopping(self) -> bool:
        return self._stop.is_set()

    def _holds(self, delivery: Delivery) -> bool:
        return self._session is not None and self._session.holds(delivery)

    def _take(self, limit: int) -> list[Delivery]:
        taken: list[Delivery] = []
        while self._waiting and len(taken) < limit:
            delivery = self._waiting.popleft()
            if not delivery.lapsed:
                taken.append(delivery)
        return taken

    def _receive(self, delivery: Delivery) -> None:
        self._waiting.append(delivery)
        self._changed.set()

    async def _consume(self) -> None:
        """Keep a session open until it is time to stop; raises what only the operator can repair."""
        pauses = 0
        while not self._stopping:
            try:
                if await self._when_ready():
                    await self._run_session()
                    pauses = 0
            except BusAway as error:
                if pauses == 0:
                    log.warning("consumer_paused", queue=self._queue.name, reason=str(error))
            pauses += 1
            seconds = backoff_seconds(pauses, first=FIRST_PAUSE_SECONDS, longest=LONGEST_PAUSE_SECONDS)
            await within(seconds, self._stop)

    async def _run_session(self) -> None:
        """Run one session until it is lost, or it is time to stop."""
        connection = await self._link.connection()
        # Assigned before it starts: its first deliveries may be settled before `start` returns.
        session = self._session = await Session.open(connection, self._queue, self._receive)
        try:
            await session.start()
            await self._watch(session)
        except BaseException:
            await session.close()
            raise
        if self._stopping and not session.lost.is_set():
            if self._queue.single_active:
                return  # the next consumer must not start before this one has settled its deliveries
            await session.stop()
            await session.give_back(self._take(len(self._waiting)))
            return
        log.warning("consumer_lost", queue=self._queue.name)
        if not connection.is_closed:
            self._link.undeclare()  # the connection is open, so perhaps the queue is missing
        await session.close()

    async def _watch(self, session: Session) -> None:
        """Return when the session is lost or forgotten by the broker, or it is time to stop."""
        while not await within(WATCH_SECONDS, session.lost, self._stop):
            if await session.is_forgotten():
                RECYCLED.labels(self._queue.name).inc()
                log.warning("consumer_recycled", queue=self._queue.name)
                return
