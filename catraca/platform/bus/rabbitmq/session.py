"""One channel with one consumer, and everything it has delivered that is not settled yet."""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from aiormq.abc import AbstractConnection, DeliveredMessage
from aiormq.channel import Channel

from catraca.platform.bus.message import Delivery
from catraca.platform.bus.rabbitmq.connection import CLOSE_SECONDS, broker_call, when_closed
from catraca.platform.bus.rabbitmq.encoding import decode
from catraca.platform.bus.rabbitmq.receiving import deliver_directly
from catraca.platform.bus.topology import Queue
from catraca.platform.bus.transport import BusAway

# Between the connection's reader and the channel's: with few, the two take turns for every third message.
FRAMES_BUFFERED = 1000


class Session:
    """Lost once, lost for good: what it delivered then lapses, for the broker has taken it back."""

    def __init__(self, channel: Channel, queue: Queue, hand_over: Callable[[Delivery], None]) -> None:
        self.connection: AbstractConnection = channel.connection
        self.lost = asyncio.Event()
        self.received = 0
        self._channel = channel
        self._queue = queue
        self._hand_over = hand_over
        self._consumer: str | None = None
        # One at a time: an acknowledgement of all up to a number must not overtake words about single ones.
        self._settling = asyncio.Lock()
        # By the channel's own numbers, which rise.
        self._in_hand: dict[int, Delivery] = {}

    @classmethod
    async def open(
        cls, connection: AbstractConnection, queue: Queue, hand_over: Callable[[Delivery], None]
    ) -> "Session":
        """A channel, without a consumer yet; raises `BusAway`."""
        async with broker_call():
            channel = await connection.channel(publisher_confirms=False, frame_buffer_size=FRAMES_BUFFERED)
        assert isinstance(channel, Channel)
        session = cls(channel, queue, hand_over)
        deliver_directly(channel, session.receive)
        when_closed(channel, session.lose)
        # The broker cancels a consumer by itself when its queue is deleted or moves.
        channel.on_consumer_cancel_callbacks.add(lambda _: session.lose())
        return session

    async def start(self) -> None:
        """Consume. The first deliveries may be handed over before this returns; raises `BusAway`."""
        async with broker_call():
            await self._channel.basic_qos(prefetch_count=self._queue.prefetch)
        async with broker_call():
            started = await self._channel.basic_consume(self._queue.name, _unasked)
        self._consumer = started.consumer_tag

    @property
    def is_registered(self) -> bool:
        return self._consumer in self._channel.consumers

    @property
    def in_hand(self) -> list[Delivery]:
        return list(self._in_hand.values())

    def holds(self, delivery: Delivery) -> bool:
        return self._in_hand.get(delivery.tag) is delivery

    async def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        """Those that have lapsed are left to the broker, and to whoever gets them now."""
        try:
            async with broker_call(), self._settling:
                tags = self._settle(deliveries)
                # Everything before the first that is still in hand goes with one word.
                oldest = next(iter(self._in_hand), math.inf)
                together = max((tag for tag in tags if tag < oldest), default=0)
                if together:
                    await self._channel.basic_ack(together, multiple=True, wait=False)
                for tag in tags:
                    if tag > together:
                        await self._channel.basic_ack(tag, wait=False)
        except BusAway:
            self.lose()

    async def give_back(self, deliveries: Iterable[Delivery]) -> None:
        try:
            async with broker_call(), self._settling:
                for tag in self._settle(deliveries):
                    await self._channel.basic_nack(tag, requeue=True, wait=False)
        except BusAway:
            self.lose()

    async def stop(self) -> None:
        """No more deliveries after this; those in hand stay ours."""
        if self._consumer is not None:
            with suppress(BusAway):
                async with broker_call():
                    await self._channel.basic_cancel(self._consumer)

    async def close(self) -> None:
        """Whatever is in hand lapses, and the broker gives it to another."""
        with suppress(BusAway):
            async with broker_call(CLOSE_SECONDS):
                await self._channel.close()
        self.lose()

    def lose(self) -> None:
        for delivery in self._in_hand.values():
            delivery.lapsed = True
        self._in_hand.clear()
        self.lost.set()

    def receive(self, arrived: DeliveredMessage) -> None:
        """Only hands over: what takes longer would keep the connection waiting."""
        if self.lost.is_set():
            return
        delivery = decode(self._queue, arrived)
        self._in_hand[delivery.tag] = delivery
        self.received += 1
        self._hand_over(delivery)

    def _settle(self, deliveries: Iterable[Delivery]) -> Sequence[int]:
        tags = [delivery.tag for delivery in deliveries if self.holds(delivery)]
        for tag in tags:
            del self._in_hand[tag]
        return tags


async def _unasked(_: DeliveredMessage) -> None:
    """What aiormq would call for each message, if `deliver_directly` did not come before it."""
