"""The metrics of a pipeline, on every bus."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import Histogram

from catraca.platform.bus import Message, Queue
from catraca.platform.bus.handlers import Unreadable
from catraca.platform.bus.outcome import BATCH_SIZES, FAULTS, HANDLER_SECONDS, LATENCY_SECONDS, OUTCOMES
from catraca.platform.database import Db
from tests.platform.bus.world import World, on_every_bus
from tests.servers import until

pytestmark = on_every_bus

NEVER = 3600


def batched(world: World, **options: Any) -> Queue:
    chosen = {"batch": 4, "prefetch": 16, "concurrency": 1, "fill_seconds": NEVER} | options
    return world.queue("batched", **chosen)


def observed(figure: Histogram, queue: Queue) -> tuple[int, float]:
    """The number of observations, and their sum."""
    child = figure.labels(queue.name)
    return int(sum(bucket.get() for bucket in child._buckets)), child._sum.get()


def outcomes(queue: Queue, *names: str) -> list[int]:
    return [int(OUTCOMES.labels(queue.name, name)._value.get()) for name in names]


def sent(message: Message, *, seconds_ago: float) -> Message:
    return message.with_headers(sent_at=int((time.time() - seconds_ago) * 1000))


async def test_batch_sizes_are_recorded(world: World) -> None:
    queue, messages = batched(world), [world.message() for _ in range(8)]
    await world.open(queue, retry_delays_seconds=())

    async def refuse_the_last(_db: Db, batch: Sequence[Message]) -> Mapping[int, Exception]:
        if messages[-1].id in [message.id for message in batch]:
            raise ValueError
        return {}

    async with world.batching(queue, refuse_the_last):
        await world.publish(*messages)
        await world.until_waiting(world.dead, 1)
    assert observed(BATCH_SIZES, queue) == (3, 7), "four, then two and one of the other four"
    assert observed(HANDLER_SECONDS, queue)[0] == 3
    assert outcomes(queue, "applied", "retried", "dead") == [7, 0, 1]


async def test_latency_is_of_the_oldest_message_up_to_the_commit(world: World) -> None:
    queue = batched(world, batch=2)
    await world.open(queue)
    old, new, ahead = (sent(world.message(), seconds_ago=ago) for ago in (7, 0, -NEVER))
    async with world.batching(queue):
        await world.publish(new, old)
        await until(lambda: observed(LATENCY_SECONDS, queue)[0] == 1)
        _, seconds = observed(LATENCY_SECONDS, queue)
        assert 7 <= seconds < NEVER
        await world.publish(world.message(), world.message())
        await world.until_applied(queue, 4)
        await world.publish(ahead, ahead)
        await world.until_applied(queue, 5)
    # Messages without a time are not observed; the latency of one from a clock ahead of ours is 0.
    assert observed(LATENCY_SECONDS, queue) == (2, seconds)


async def test_faults_are_counted_by_reason_and_messages_by_outcome(world: World) -> None:
    queue = batched(world)
    await world.open(queue, retry_delays_seconds=(0.05, 0.05))
    unreadable, failing, good = world.message(), world.message(), [world.message() for _ in range(3)]

    async def refuse(message: Message) -> None:
        if message.id == unreadable.id:
            raise Unreadable("malformed_json")
        if message.id == failing.id:
            raise KeyError

    async with world.batching(queue, prepare=refuse):
        await world.publish(unreadable, failing, *good, good[0])
        await world.until_applied(queue, 3)
        await world.until_waiting(world.dead, 2)
    assert outcomes(queue, "applied", "repeated", "retried", "dead", "lapsed") == [3, 1, 2, 2, 0]
    faults = {
        reason: FAULTS.labels(queue.name, reason)._value.get() for reason in ("malformed_json", "KeyError")
    }
    assert faults == {"malformed_json": 1, "KeyError": 3}
