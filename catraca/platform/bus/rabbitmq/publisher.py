"""Publishes messages: with confirms if they must arrive, without if they may be dropped."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from uuid import UUID

from aiormq import Channel, DeliveryError, PublishError

from catraca.platform.bus.message import Message
from catraca.platform.bus.rabbitmq.codec import Address, properties_of, transient_properties_of
from catraca.platform.bus.rabbitmq.connection import KeptChannel, Link, broker_call, broker_errors
from catraca.platform.bus.rabbitmq.declarations import retry_name
from catraca.platform.bus.topology import Queue, Topology, TopologyRefused
from catraca.platform.bus.transport import BusAway, QueueFull, Unroutable

# For a whole call, with connecting and declaring: less than the relay's lease.
PUBLISH_SECONDS = 5.0
TRANSIENT_SECONDS = 1.0
IN_FLIGHT = 256

Outcome = Exception | None


class Publisher:
    """`retry_delays_seconds` are those with a queue; another delay is declared when it is first used."""

    def __init__(self, link: Link, topology: Topology, retry_delays_seconds: set[float]) -> None:
        self._link = link
        self._topology = topology
        self._queues = {queue.name for queue in topology.queues if queue.transient_seconds is None}
        self._retry_delays_seconds = retry_delays_seconds
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._in_flight: dict[UUID, asyncio.Event] = {}
        self._with_confirms = KeptChannel(link, confirms=True)
        self._without_confirms = KeptChannel(link, confirms=False)

    async def publish(self, messages: Sequence[Message], to: Address | None = None) -> list[Outcome]:
        """Return None or the error for each message. Aggregates in parallel, the messages of one in order.

        Raises only what `Link.connection` finds wrong with a queue.
        """
        outcomes: list[Outcome] = [BusAway("not tried")] * len(messages)
        lanes: dict[UUID, list[int]] = {}
        for place, message in enumerate(messages):
            lanes.setdefault(_lane_of(message), []).append(place)

        async def send_lane(channel: Channel, lane: Sequence[int]) -> None:
            for done, place in enumerate(lane):
                outcomes[place] = outcome = await self._send(channel, messages[place], to)
                if outcome is not None:  # a later event must not arrive before this one
                    for later in lane[done:]:
                        outcomes[later] = outcome
                    return

        try:
            async with broker_call(PUBLISH_SECONDS):
                channel = await self._with_confirms.get()
                async with asyncio.TaskGroup() as tasks:
                    for lane in lanes.values():
                        tasks.create_task(send_lane(channel, lane))
        except BusAway as error:
            outcomes = [error if isinstance(outcome, BusAway) else outcome for outcome in outcomes]
        self._check_missing(messages, outcomes, to)
        return outcomes

    async def put(self, message: Message, to: Address) -> None:
        """Publish one message to an address. Raises `BusAway` for any failure: wait and try again."""
        [outcome] = await self.publish([message], to)
        if outcome is not None:
            raise BusAway(f"{to.exchange}: {type(outcome).__name__}") from outcome

    async def put_off(self, message: Message, queue: Queue, *, delay_seconds: float) -> None:
        """Publish to the queue for that delay, from which the message returns to this queue alone."""
        if (own := queue.retries_in) is not None:
            await self.put(message, Address(own.exchange, own.name))
            return
        if delay_seconds not in self._retry_delays_seconds:
            self._retry_delays_seconds.add(delay_seconds)
            self._link.undeclare()
        await self.put(message, Address(retry_name(delay_seconds), queue.name))

    async def publish_transient(self, messages: Sequence[Message]) -> None:
        """Publish to the transient queues only. Dropped if the broker does not take it at once."""
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
                channel = await self._without_confirms.get()
                for message, queue in copies:
                    properties = transient_properties_of(message, queue, sent_at)
                    await channel.basic_publish(
                        message.body, routing_key=queue.name, properties=properties, wait=False
                    )

    async def _send(self, channel: Channel, message: Message, to: Address | None) -> Outcome:
        """Publish one message and wait for its confirm."""
        address = to or self._own_address(message)
        if address is None:
            return Unroutable(message.key)
        moved = to is not None or message.queue is not None
        try:
            async with self._slots, self._only_copy(message.id):
                with broker_errors():
                    try:
                        await channel.basic_publish(
                            message.body,
                            exchange=address.exchange,
                            routing_key=address.key,
                            properties=properties_of(message, moved=moved),
                            mandatory=True,
                            wait=False,
                        )
                    except (PublishError, ValueError, TypeError):  # returned, or a key beyond 255 bytes
                        return Unroutable(message.key)
                    except DeliveryError:
                        return QueueFull(message.key)
        except BusAway as error:
            return error
        return None

    def _own_address(self, message: Message) -> Address | None:
        """None if there is none: the broker would close the channel for an unknown exchange."""
        if message.queue is not None:
            return Address("", message.queue) if message.queue in self._queues else None
        if message.exchange and message.exchange not in self._topology.exchanges:
            return None
        return Address(message.exchange, message.key)

    @asynccontextmanager
    async def _only_copy(self, message_id: UUID) -> AsyncGenerator[None]:
        """Wait while the same message is in flight: aiormq matches returned messages by their id."""
        while (other := self._in_flight.get(message_id)) is not None:
            await other.wait()
        done = self._in_flight[message_id] = asyncio.Event()
        try:
            yield
        finally:
            del self._in_flight[message_id]
            done.set()

    def _check_missing(
        self, messages: Sequence[Message], outcomes: Sequence[Outcome], to: Address | None
    ) -> None:
        """Declare everything again if a queue of our topology is missing on the broker."""
        for message, outcome in zip(messages, outcomes, strict=True):
            if isinstance(outcome, Unroutable) and (to is not None or self._has_queue(message)):
                self._link.undeclare()
                return

    def _has_queue(self, message: Message) -> bool:
        if message.queue is not None:
            return message.queue in self._queues
        return bool(self._topology.route(message.exchange, message.key))


def _lane_of(message: Message) -> UUID:
    """Messages of one lane are sent in order. A message for one queue only has its own lane."""
    return message.id if message.queue is not None else message.headers.aggregate_id or message.id
