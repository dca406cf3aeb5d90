"""`world.py` on RabbitMQ: where its processes may die on that bus, and the depth of its queues."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aio_pika

from catraca.platform.bus import Message, Queue
from catraca.platform.bus.rabbitmq import RabbitMqBus
from catraca.platform.bus.rabbitmq.declarations import retry_name
from catraca.platform.bus.rabbitmq.publisher import Publisher
from catraca.platform.bus.rabbitmq.subscription import RabbitMqSubscription
from tests.storms.events import world
from tests.storms.events.windows import Fate, FatedSubscription, after, let_it_leave

QUEUES = [
    *(queue.name for queue in world.WORLD.queues),
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

    async def _send(self, *arguments: Any) -> Any:
        """Publish a message, and perhaps die before the broker's confirm."""
        sending = asyncio.ensure_future(super()._send(*arguments))
        if after.get() == "beginning" and self.fate.is_up("between_publish_and_confirm"):
            await let_it_leave()
            self.fate.strike()
        return await sending


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
