"""A queue's own retry queue, as RabbitMQ has it: named after its delay, and safe to change."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from aiormq.channel import Channel

from catraca.events.topology import SIGN_UP_EXCHANGE, SIGN_UP_QUEUE, SignUpFlow, make_topology
from catraca.platform.bus import BusAway, Message, Queue
from catraca.platform.bus.rabbitmq import RabbitMqBus
from catraca.platform.bus.topology import RetryQueue, delay_name
from tests.platform.bus.rabbitmq.world import World, take
from tests.servers import until

pytestmark = pytest.mark.xdist_group("rabbitmq")


def with_own_retries(world: World, delay_seconds: float) -> Queue:
    tag = world.first.name.removeprefix("first_")
    own = RetryQueue(
        name=f"own_{tag}_retry_{delay_name(delay_seconds)}",
        exchange=f"own_retry_{tag}",
        delay_seconds=delay_seconds,
        times=3,
        returns_by=(world.exchange, "ride.requested"),
    )
    return replace(world.first, retries_in=own)


def bus_with(world: World, queue: Queue, **changes: object) -> RabbitMqBus:
    return world.bus(queues=(queue, world.letters), **changes)


async def listed(world: World, what: str, *columns: str) -> list[dict[str, Any]]:
    return json.loads(await world.broker.ctl(f"list_{what}", *columns, "--formatter", "json"))


async def test_own_retry_queue_is_durable_and_returns_to_its_queue(world: World) -> None:
    queue = with_own_retries(world, 77)
    own = queue.retries_in
    assert own is not None
    await bus_with(world, queue).declare()

    (made,) = [
        one
        for one in await listed(world, "queues", "name", "durable", "type", "arguments")
        if one["name"] == own.name
    ]
    assert (made["durable"], made["type"]) == (True, "quorum")
    arguments = {name: value for name, _, value in made["arguments"]}
    assert arguments == {
        "x-queue-type": "quorum",
        "x-message-ttl": 77_000,
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": world.exchange,
        "x-dead-letter-routing-key": "ride.requested",
    }
    bindings = await listed(world, "bindings", "source_name", "destination_name", "routing_key")
    assert [
        (one["source_name"], one["routing_key"])
        for one in bindings
        if one["destination_name"] == own.name and one["source_name"]
    ] == [(own.exchange, own.name)]


async def test_a_changed_delay_is_a_new_queue_and_the_old_one_drains(world: World, stranger: Channel) -> None:
    """The queues of sign-ups with two settings, one after the other, on one broker."""
    early, late = (
        msgspec.structs.replace(world.message(), exchange=SIGN_UP_EXCHANGE, key=SIGN_UP_QUEUE)
        for _ in range(2)
    )
    bus, queue = sign_ups(world, retry_ttl_ms=1000)
    subscription = await world.subscribe(bus, queue)
    assert await bus.publish([early]) == [None]
    await subscription.retry((await take(subscription, 1))[0], delay_seconds=1, reason="Early")
    await subscription.close()

    bus, queue = sign_ups(world, retry_ttl_ms=100)
    subscription = await world.subscribe(bus, queue)
    assert await bus.publish([late]) == [None]
    returned: list[Message] = []
    while len(returned) < 2:
        [delivery] = await take(subscription, 1)
        if delivery.message.headers.retries:
            returned.append(delivery.message)
            await subscription.done([delivery])
        else:
            await subscription.retry(delivery, delay_seconds=0.1, reason="Late")
    assert returned[0] in (expected := [early.again("Early"), late.again("Late")])
    assert returned[1] in expected
    for name in ("raffle_retry_1s", "raffle_retry_100ms"):
        assert (await stranger.queue_declare(name, passive=True)).message_count == 0


def sign_ups(world: World, *, retry_ttl_ms: int) -> tuple[RabbitMqBus, Queue]:
    """A bus with only the queues of sign-ups, made with this setting."""
    topology = make_topology(SignUpFlow(retry_ttl_ms=retry_ttl_ms))
    queues = tuple(queue for queue in topology.queues if queue.name.startswith("raffle_"))
    bus = world.bus(exchanges=topology.exchanges, direct=topology.direct, queues=queues)
    return bus, topology.queue(SIGN_UP_QUEUE)


async def test_retry_does_not_count_as_a_delivery(world: World) -> None:
    queue = with_own_retries(world, 0.1)
    bus = bus_with(world, queue, delivery_limit=1)
    first, letters = await world.subscribe(bus, queue), await world.subscribe(bus, world.letters)
    message = world.message()
    await bus.publish([message])
    for _ in range(2):
        await first.retry((await take(first, 1))[0], delay_seconds=0.1, reason="ValueError")

    [again] = await take(first, 1)
    retried = message.again("ValueError").again("ValueError")
    assert again.message == retried, "where it waited is not where it died"
    await first.give_back([again])
    await first.give_back(await take(first, 1))

    [letter] = await take(letters, 1)
    assert letter.message == retried.with_headers(queue=queue.name, reason="delivery_limit")


async def test_a_deleted_retry_queue_is_made_again_and_nothing_is_lost(
    world: World, stranger: Channel
) -> None:
    queue = with_own_retries(world, 0.1)
    assert queue.retries_in is not None
    bus = bus_with(world, queue)
    first = await world.subscribe(bus, queue)
    message = world.message()
    await bus.publish([message])
    [delivery] = await take(first, 1)
    await stranger.queue_delete(queue.retries_in.name)

    async def put_off() -> bool:
        try:
            await first.retry(delivery, delay_seconds=0.1, reason="ValueError")
        except BusAway:
            return False
        return True

    await until(put_off)
    assert [one.message for one in await take(first, 1)] == [message.again("ValueError")]
