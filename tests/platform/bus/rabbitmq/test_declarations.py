"""Declared queues have the required properties, and differences are reported to the operator."""

import asyncio
import re
from dataclasses import replace

import msgspec
import pytest
from aiormq.channel import Channel

from catraca.platform.bus import BusAway, Unroutable
from catraca.platform.bus.rabbitmq import QueueDiffers
from catraca.platform.bus.rabbitmq.declarations import retry_name
from tests.platform.bus.rabbitmq.world import World, take
from tests.servers import START_SECONDS, until

pytestmark = pytest.mark.xdist_group("rabbitmq")

WORKERS = "length(supervisor:which_children(rabbit_fifo_dlx_sup))."


async def test_dead_letters_are_delivered_at_least_once(world: World) -> None:
    async def workers() -> int:
        return int(await world.broker.ctl("eval", WORKERS))

    before = await workers()
    await world.bus(retry_delays_seconds=(77,)).declare()

    # `first`, `second` and `retry_77s`; if an argument is missing, RabbitMQ only logs it.
    await until(lambda: _is(workers, before + 3))


async def _is(ask, wanted: int) -> bool:
    return await ask() == wanted


async def test_differing_queue_is_reported_with_its_remedy(world: World, stranger: Channel) -> None:
    await world.bus().declare()
    shorter = replace(world.first, max_length=7)
    bus = world.bus(queues=(shorter, world.second, world.letters))
    subscription = await world.subscribe(bus, world.second)

    with pytest.raises(QueueDiffers, match=f"{world.first.name}.*let it run empty and delete it"):
        await bus.declare()
    with pytest.raises(QueueDiffers, match=re.escape(world.first.name)):
        await bus.publish([world.message()])
    with pytest.raises(QueueDiffers, match=re.escape(world.first.name)):
        await asyncio.wait_for(subscription.next(1), START_SECONDS)

    await stranger.queue_delete(world.first.name)
    assert await bus.publish([world.message()]) == [None]


async def test_declaring_again_changes_nothing(world: World) -> None:
    bus = world.bus()
    await bus.declare()
    assert await bus.publish([world.message()]) == [None]

    await world.bus().declare()

    assert (await bus.depths())[world.first.name] == 1


async def test_a_deleted_queue_is_made_again_after_a_message_came_back(
    world: World, stranger: Channel
) -> None:
    bus = world.bus(queues=(world.first, world.letters))
    assert await bus.publish([world.message()]) == [None]
    await stranger.queue_delete(world.first.name)

    [came_back] = await bus.publish([world.message()])
    assert isinstance(came_back, Unroutable)
    assert await bus.publish([world.message()]) == [None]
    assert (await bus.depths())[world.first.name] == 1


async def test_depths_of_a_deleted_queue_come_back_at_the_next_query(world: World, stranger: Channel) -> None:
    bus = world.bus()
    await bus.declare()
    await stranger.queue_delete(world.first.name)

    with pytest.raises(BusAway):
        await bus.depths()
    assert (await bus.depths())[world.first.name] == 0


async def test_a_queue_without_dead_letters_keeps_returned_messages(
    world: World,
) -> None:
    bus = world.bus(delivery_limit=1)
    subscription = await world.subscribe(bus, world.letters)
    letter = msgspec.structs.replace(world.message(), exchange=world.dlx)
    assert await bus.publish([letter]) == [None]

    for _ in range(25):  # newer brokers drop a message after 20 deliveries by default
        [delivery] = await take(subscription, 1)
        await subscription.give_back([delivery])

    [delivery] = await take(subscription, 1)
    assert delivery.message.id == letter.id


@pytest.mark.parametrize(
    ("seconds", "name"), [(1, "retry_1s"), (25, "retry_25s"), (0.25, "retry_250ms"), (1.5, "retry_1500ms")]
)
def test_a_retry_queue_is_named_after_its_delay(seconds: float, name: str) -> None:
    assert retry_name(seconds) == name
