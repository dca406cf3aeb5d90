"""A `Transport` on RabbitMQ, for any number of processes and machines."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from aiormq.abc import AbstractConnection

from catraca.platform.bus.message import Message
from catraca.platform.bus.rabbitmq.connection import Link, spare_channel
from catraca.platform.bus.rabbitmq.declarations import count_messages, declare_topology, retry_name
from catraca.platform.bus.rabbitmq.publisher import Publisher
from catraca.platform.bus.rabbitmq.subscription import RabbitMqSubscription
from catraca.platform.bus.topology import Queue, Topology, TopologyRefused
from catraca.platform.bus.transport import BusAway

ASK_SECONDS = 0.5


class RabbitMqBus:
    """Has two connections: the broker may stop reading from a publisher, and acknowledgements must not wait.

    Connects when needed, so a broker that is down is `BusAway` and not a failed start.
    """

    def __init__(self, url: str, topology: Topology) -> None:
        self._topology = topology
        self._asking: asyncio.Task[bool] | None = None
        self._retry_delays_seconds = set(topology.retry_delays_seconds)
        self._declaring = asyncio.Lock()
        self._publishing = Link(url, purpose="publishing", prepare=self._prepare)
        self._consuming = Link(url, purpose="consuming", prepare=self._prepare)
        self._publisher = Publisher(self._publishing, topology, self._retry_delays_seconds)

    async def declare(self) -> None:
        """Also raises `QueueDiffers`, which says what the operator must do."""
        self._consuming.undeclare()
        await self._consuming.connection()

    async def publish(self, messages: Sequence[Message]) -> list[Exception | None]:
        return await self._publisher.publish(messages)

    async def publish_transient(self, messages: Sequence[Message]) -> None:
        await self._publisher.publish_transient(messages)

    async def subscribe(
        self, queue: Queue, *, when_ready: Callable[[], Awaitable[bool]]
    ) -> RabbitMqSubscription:
        return RabbitMqSubscription(queue, self._consuming, self._publisher, when_ready)

    async def depths(self) -> Mapping[str, int]:
        return await self._count([queue.name for queue in self._topology.queues])

    async def retrying(self) -> Mapping[str, int]:
        names = [retry_name(delay) for delay in sorted(self._retry_delays_seconds)]
        names += [queue.retries_in.name for queue in self._topology.queues if queue.retries_in is not None]
        return await self._count(names)

    async def _count(self, names: Sequence[str]) -> Mapping[str, int]:
        connection = await self._consuming.connection()
        try:
            return {name: (await count_messages(connection, name))[0] for name in names}
        except BusAway:
            self._consuming.undeclare()  # a queue may be missing
            raise

    async def is_up(self) -> bool:
        """Returns within `ASK_SECONDS`, even if the broker is frozen."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(), name="rabbitmq is up?")
        await asyncio.wait([self._asking], timeout=ASK_SECONDS)
        return self._asking.done() and self._asking.result()

    async def _ask(self) -> bool:
        try:
            connection = await self._consuming.connection()
            async with spare_channel(connection):
                return True
        except (BusAway, TopologyRefused):
            return False

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._publishing.close()
        await self._consuming.close()

    async def _prepare(self, connection: AbstractConnection) -> None:
        # One at a time: RabbitMQ fails if two connections declare the same quorum queue at once.
        async with self._declaring:
            await declare_topology(connection, self._topology, sorted(self._retry_delays_seconds))
