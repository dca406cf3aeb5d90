"""One channel with one consumer, and all its deliveries that are not settled yet."""

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, cast

from aiormq import ChannelNotFoundEntity
from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage

from catraca.platform.bus.message import Delivery
from catraca.platform.bus.rabbitmq.codec import decode
from catraca.platform.bus.rabbitmq.connection import CLOSE_SECONDS, broker_call
from catraca.platform.bus.rabbitmq.declarations import count_messages
from catraca.platform.bus.topology import Queue
from catraca.platform.bus.transport import BusAway

# Frames between the connection's reader and the channel's; with few, the two alternate for each message.
FRAMES_BUFFERED = 1000


class Session:
    """A lost session stays lost: its deliveries lapse, because the broker has taken them back."""

    def __init__(self, channel: AbstractChannel, queue: Queue, deliver: Callable[[Delivery], None]) -> None:
        self.lost = asyncio.Event()
        self._channel = channel
        self._queue = queue
        self._deliver = deliver
        self._consumer: str | None = None
        # One at a time: "acknowledge all up to" must not overtake acknowledgements of single messages.
        self._settling = asyncio.Lock()
        # By delivery tag; tags rise.
        self._in_hand: dict[int, Delivery] = {}
        self._received = 0
        self._received_at_check = 0
        self._was_starved = False

    @classmethod
    async def open(
        cls, connection: AbstractConnection, queue: Queue, deliver: Callable[[Delivery], None]
    ) -> "Session":
        """Open a channel without a consumer; raises `BusAway`."""
        async with broker_call():
            channel = await connection.channel(publisher_confirms=False, frame_buffer_size=FRAMES_BUFFERED)
        session = cls(channel, queue, deliver)
        closing: asyncio.Future[Any] = cast(Any, channel).closing
        closing.add_done_callback(lambda _: session.lose())
        # The broker cancels a consumer when its queue is deleted or moves.
        channel.on_consumer_cancel_callbacks.add(lambda _: session.lose())
        return session

    async def start(self) -> None:
        """Consume. The first deliveries may arrive before this returns; raises `BusAway`."""
        async with broker_call():
            await self._channel.basic_qos(prefetch_count=self._queue.prefetch)
        async with broker_call():
            started = await self._channel.basic_consume(self._queue.name, self._receive)
        self._consumer = started.consumer_tag

    @property
    def in_hand(self) -> list[Delivery]:
        return list(self._in_hand.values())

    def holds(self, delivery: Delivery) -> bool:
        return self._in_hand.get(delivery.tag) is delivery

    async def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        """Lapsed deliveries are skipped: another consumer has them."""
        try:
            async with broker_call(), self._settling:
                tags = self._remove(deliveries)
                # Everything before the first unsettled delivery, with one acknowledgement.
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
                for tag in self._remove(deliveries):
                    await self._channel.basic_nack(tag, requeue=True, wait=False)
        except BusAway:
            self.lose()

    async def stop(self) -> None:
        """End the deliveries. Those received can still be settled."""
        if self._consumer is not None:
            with suppress(BusAway):
                async with broker_call():
                    await self._channel.basic_cancel(self._consumer)

    async def close(self) -> None:
        """Unsettled deliveries lapse, and the broker gives them to another consumer."""
        with suppress(BusAway):
            async with broker_call(CLOSE_SECONDS):
                await self._channel.close()
        self.lose()

    def lose(self) -> None:
        for delivery in self._in_hand.values():
            delivery.lapsed = True
        self._in_hand.clear()
        self.lost.set()

    async def is_forgotten(self) -> bool:
        """True if the broker no longer delivers to this consumer, without an error. Ask every few seconds."""
        if self._received != self._received_at_check or self._in_hand:
            self._received_at_check, self._was_starved = self._received, False
            return False
        try:
            messages, consumers = await count_messages(self._channel.connection, self._queue.name)
        except BusAway as error:
            return isinstance(error.__cause__, ChannelNotFoundEntity)  # the queue is gone
        # In a single-active queue all consumers but one get nothing, and the broker counts only that one.
        is_starved = messages > 0 and not self._queue.single_active
        # A message found by one check may be on its way; by the second it should have arrived.
        was_starved, self._was_starved = self._was_starved, is_starved
        return consumers == 0 or (was_starved and is_starved)

    async def _receive(self, arrived: DeliveredMessage) -> None:
        """Only passes the delivery on: aiormq cancels its callbacks when the connection is lost."""
        if self.lost.is_set():
            return
        delivery = decode(self._queue, arrived)
        self._in_hand[delivery.tag] = delivery
        self._received += 1
        self._deliver(delivery)

    def _remove(self, deliveries: Iterable[Delivery]) -> Sequence[int]:
        tags = [delivery.tag for delivery in deliveries if self.holds(delivery)]
        for tag in tags:
            del self._in_hand[tag]
        return tags
