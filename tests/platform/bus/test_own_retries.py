"""A queue may have its own retry queue, on every bus."""

from typing import Any

import pytest

from catraca.platform.bus import Message, Queue
from catraca.platform.bus.topology import RetryQueue, delay_name
from catraca.platform.database import Db
from tests.platform.bus.world import KEY, World, on_every_bus
from tests.servers import until

pytestmark = on_every_bus

NEVER = 3600


def with_own_retries(world: World, *, delay_seconds: float, times: int, **options: Any) -> Queue:
    own = RetryQueue(
        name=f"own_{world.tag}_retry_{delay_name(delay_seconds)}",
        exchange=f"own_retry_{world.tag}",
        delay_seconds=delay_seconds,
        times=times,
        returns_by=(world.exchange, KEY),
    )
    return world.queue("own", retries_in=own, **options)


async def fail(_db: Db, _message: Message) -> None:
    raise ValueError


@pytest.mark.parametrize("times", [0, 2])
async def test_retries_follow_the_queues_own_count_and_delay(world: World, times: int) -> None:
    queue = with_own_retries(world, delay_seconds=0.05, times=times)
    await world.open(queue, retry_delays_seconds=(NEVER,))
    retries: list[int] = []

    async def note_and_fail(_db: Db, message: Message) -> None:
        retries.append(message.headers.retries)
        raise ValueError

    async with world.consuming(queue, note_and_fail):
        await world.publish(message := world.message(body=b'{"n": 1}'))
        await world.until_waiting(world.dead, 1)
    assert retries == list(range(times + 1))
    expected = message.with_headers(queue=queue.name, reason="ValueError", retries=times)
    if times:
        expected = expected.with_headers(retry_reason="ValueError")
    assert await world.buried(1) == [expected]


async def test_a_retried_message_is_unchanged(world: World) -> None:
    queue = with_own_retries(world, delay_seconds=0.05, times=1)
    await world.open(queue, retry_delays_seconds=(NEVER,))
    message = world.message(body=b'{"n": 1}').with_headers(trace="r-1", sent_at=1_700_000_000_000)

    async def fail_at_first(_db: Db, message: Message) -> None:
        if not message.headers.retries:
            raise ValueError

    async with world.consuming(queue, fail_at_first):
        await world.publish(message)
        assert await world.until_applied(queue, 1) == [message.again("ValueError")]


async def test_the_number_of_retrying_messages_is_reported(world: World, carrier: str) -> None:
    queue = with_own_retries(world, delay_seconds=NEVER, times=1)
    await world.open(queue)
    assert queue.retries_in is not None
    place = queue.retries_in.name if carrier == "rabbitmq" else queue.name
    assert (await world.bus.retrying())[place] == 0
    async with world.consuming(queue, fail):
        await world.publish(*(world.message() for _ in range(3)))

        async def three_wait() -> bool:
            return (await world.bus.retrying())[place] == 3

        await until(three_wait)
    assert (await world.bus.depths())[queue.name] == 0, "who waits for another try is not in the queue"


async def test_retrying_messages_in_shared_queues_are_reported(world: World, carrier: str) -> None:
    queue = world.queue("plain")
    await world.open(queue, retry_delays_seconds=(NEVER + 1,))
    place = f"retry_{NEVER + 1}s" if carrier == "rabbitmq" else queue.name
    before = (await world.bus.retrying())[place]
    async with world.consuming(queue, fail):
        await world.publish(world.message())

        async def one_more_waits() -> bool:
            return (await world.bus.retrying())[place] == before + 1

        await until(one_more_waits)
