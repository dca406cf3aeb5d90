"""The publishing side: a channel with confirms for what must arrive, one without for what may be dropped."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

from catraca.platform.bus.message import Message
from catraca.platform.bus.rabbitmq.batch import Batch, Outcome
from catraca.platform.bus.rabbitmq.confirming import ConfirmChannel
from catraca.platform.bus.rabbitmq.connection import KeptChannel, Link, broker_call, write
from catraca.platform.bus.rabbitmq.declaring import retry_name
from catraca.platform.bus.rabbitmq.encoding import Address, encode_transient
from catraca.platform.bus.topology import Queue, Topology, TopologyRefused
from catraca.platform.bus.transport import BusAway, Unroutable

# For a whole call, connecting and declaring included: less than the relay's lease.
PUBLISH_SECONDS = 5.0
TRANSIENT_SECONDS = 1.0
IN_FLIGHT = 256


class Publisher:
    """`retry_delays_seconds` are those with a queue; another is added, and declared, when it is used."""

    def __init__(self, link: Link, topology: Topology, retry_delays_seconds: set[float]) -> None:
        self._link = link
        self._topology = topology
        self._queues = {queue.name for queue in topology.live if queue.transient_seconds is None}
        self._retry_delays_seconds = retry_delays_seconds
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._with_confirms = KeptChannel(link, confirms=True)
        self._without = KeptChannel(link, confirms=False)
        self._confirming: ConfirmChannel | None = None

    async def publish(self, messages: Sequence[Message], to: Address | None = None) -> list[Outcome]:
        """For each message None, or why not; raises only what `Link.connection` finds wrong with a queue."""
        batch = Batch(messages, to, exchanges=self._topology.exchanges, queues=self._queues, room=self._room)
        try:
            async with broker_call(PUBLISH_SECONDS):
                await batch.run(await self._confirm_channel())
        except BusAway as error:
            batch.give_up(error)
        finally:
            batch.let_go()
        self._notice_missing(messages, batch.outcomes, to)
        return batch.outcomes

    async def put(self, message: Message, to: Address) -> None:
        """Publish one message there. It must go, so anything in the way is `BusAway`: wait and try again."""
        [outcome] = await self.publish([message], to)
        if outcome is not None:
            raise BusAway(f"{to.exchange}: {type(outcome).__name__}") from outcome

    async def put_off(self, message: Message, queue: Queue, *, delay_seconds: float) -> None:
        """Into the queue for that delay, from which it comes back to this queue alone."""
        if (own := queue.retries_in) is not None:
            await self.put(message, Address(own.exchange, own.name))
            return
        if delay_seconds not in self._retry_delays_seconds:
            self._retry_delays_seconds.add(delay_seconds)
            self._link.undeclare()
        await self.put(message, Address(retry_name(delay_seconds), queue.name))

    async def publish_transient(self, messages: Sequence[Message]) -> None:
        """To the transient queues alone, and only while the broker takes it at once."""
        sent_at = time.time()
        copies = [
            (message, queue)
            for message in messages
            for queue in self._topology.route(message.exchange, message.key)
            if queue.transient_seconds is not None
        ]
        if not copies:
            return
        with suppress(BusAway, TopologyRefused):
            async with broker_call(TRANSIENT_SECONDS):
                channel = await self._without.get()
                frame_bytes = channel.connection.connection_tune.frame_max
                payload = b"".join(
                    encode_transient(message, channel.number, queue, sent_at, frame_bytes=frame_bytes)
                    for message, queue in copies
                )
                await write(channel, payload)

    async def _confirm_channel(self) -> ConfirmChannel:
        channel = await self._with_confirms.get()
        if self._confirming is None or self._confirming.channel is not channel:
            self._confirming = ConfirmChannel(channel)
        return self._confirming

    def _notice_missing(
        self, messages: Sequence[Message], outcomes: Sequence[Outcome], to: Address | None
    ) -> None:
        """A queue that our topology has and the broker has not was deleted by somebody."""
        for message, outcome in zip(messages, outcomes, strict=True):
            if isinstance(outcome, Unroutable) and (to is not None or self._is_ours(message)):
                self._link.undeclare()
                return

    def _is_ours(self, message: Message) -> bool:
        """Whether our topology has a queue for it."""
        if message.queue is not None:
            return message.queue in self._queues
        return bool(self._topology.route(message.exchange, message.key))
