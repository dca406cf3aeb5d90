"""`world.py` on RabbitMQ: where its processes may die on that bus, and the depth of its queues."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aio_pika

from catraca.platform.bus import Message, Queue
from catraca.platform.bus.rabbitmq import RabbitMqBus
from catraca.platform.bus.rabbitmq.confirming import ConfirmChannel
from catraca.platform.bus.rabbitmq.declaring import retry_name
from catraca.platform.bus.rabbitmq.publisher import Publisher
from catraca.platform.bus.rabbitmq.subscription import RabbitMqSubscription
from tests.storms.events import world
from tests.storms.events.windows import Fate, FatedSubscription, after, let_it_leave

QUEUES = [
    *(queue.name for queue in world.WORLD.live),
    *(retry_name(seconds) for seconds in world.WORLD.retry_delays_seconds),
]


class FatedRabbitMqBus(RabbitMqBus):
    def __init__(self, url: str, fate: Fate) -> None:
        super().__init__(url, world.WORLD)
        self._fate = fate
        self._publisher = FatedPublisher(self._publishing, world.WORLD, self._retry_delays_seconds)
        self._publisher.fate = fate

    async def publish(self, messages: Sequence[Message]) -> list[Exception | None]:
        after.set("beginning")
        outcomes = await super().publish(messages)
        self._fate.pass_by("between_confirm_and_mark")
        after.set("publishing")
        return outcomes

    async def subscribe(self, queue: Queue, *, when_ready: Callable[[], Awaitable[bool]]) -> Any:
        subscription = RabbitMqSubscription(queue, self._consuming, self._publisher, when_ready)
        return FatedSubscription(subscription, self._fate)


class FatedPublisher(Publisher):
    fate: Fate

    async def put_off(self, message: Message, queue: Queue, *, delay_seconds: float) -> None:
        self.fate.pass_by("during_retry")
        await super().put_off(message, queue, delay_seconds=delay_seconds)
        self.fate.pass_by("during_retry")

    async def _confirm_channel(self) -> ConfirmChannel:
        channel = await super()._confirm_channel()
        return FatedChannel(channel, self.fate)


class FatedChannel:
    """A channel that can publish messages and die before the broker's confirm."""

    def __init__(self, channel: ConfirmChannel, fate: Fate) -> None:
        self._channel = channel
        self._fate = fate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def send(self, *messages: Any) -> Any:
        confirmations = await self._channel.send(*messages)
        if after.get() == "beginning" and self._fate.is_up("between_publish_and_confirm"):
            await let_it_leave()
            self._fate.strike()
        return confirmations


async def empty_queues(amqp_url: str) -> None:
    """Declare the world's queues and purge them."""
    bus = RabbitMqBus(amqp_url, world.WORLD)
    await bus.declare()
    await bus.close()
    async with await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        for name in QUEUES:
            await (await channel.get_queue(name)).purge()


async def are_queues_empty(amqp_url: str) -> bool:
    """True when no message is ready in any queue; messages that a consumer holds are not counted."""
    async with await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        found = [await channel.declare_queue(name, passive=True) for name in QUEUES]
        return not any(queue.declaration_result.message_count for queue in found)
