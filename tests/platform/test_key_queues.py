"""Queues by key on a real Redis: one caller at a time; a Redis that is away delays no caller."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from catraca.platform.key_queues import KeyQueues
from catraca.platform.leases import acquire_lease, read_holder, release_lease
from catraca.platform.redis_client import RedisAway, RedisClient, RedisLimits
from tests.servers import until
from tests.support.redis_server import PATIENT, PrivateRedis

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def other_redis(server: PrivateRedis) -> AsyncIterator[RedisClient]:
    """The client of another process."""
    client = RedisClient(server.url, limits=PATIENT)
    yield client
    await client.close()


@pytest.fixture
def key() -> str:
    return f"lock:worker:{uuid4()}"


def queues_of(redis: RedisClient, **limits: Any) -> KeyQueues:
    """With a wait that does not end because the machine is busy."""
    return KeyQueues(redis, **{"wait_seconds": 60.0} | limits)


@dataclass
class Visits:
    """The order of callers, and the most that were inside together."""

    order: list[str] = field(default_factory=list)
    inside: int = 0
    most: int = 0

    async def make(
        self, queues: KeyQueues, key: str, name: str = "", until_set: asyncio.Event | None = None
    ) -> None:
        async with queues.enter(key):
            self.order.append(name)
            self.inside += 1
            self.most = max(self.most, self.inside)
            try:
                await (asyncio.sleep(0.001) if until_set is None else until_set.wait())
            finally:
                self.inside -= 1

    def start(self, queues: KeyQueues, key: str, name: str = "", until_set: asyncio.Event | None = None):
        return asyncio.create_task(self.make(queues, key, name, until_set))


async def test_callers_of_a_process_enter_one_by_one_in_order(redis: RedisClient, key: str) -> None:
    queues, visits = queues_of(redis), Visits()
    names = [str(number) for number in range(20)]
    await asyncio.gather(*(visits.make(queues, key, name) for name in names))
    assert visits.order == names
    assert visits.most == 1


async def test_single_caller_takes_no_lease(redis: RedisClient, key: str) -> None:
    async with queues_of(redis).enter(key):
        assert await read_holder(redis, key) is None


async def test_callers_of_different_keys_do_not_wait(redis: RedisClient, key: str) -> None:
    queues, visits, may_leave = queues_of(redis), Visits(), asyncio.Event()
    tasks = [visits.start(queues, f"{key} {number}", until_set=may_leave) for number in range(3)]
    await until(lambda: visits.inside == 3)
    may_leave.set()
    await asyncio.gather(*tasks)
    assert visits.most == 3


async def test_callers_of_two_processes_enter_one_by_one(
    redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    ours, theirs, first, then = queues_of(redis), queues_of(other_redis), Visits(), Visits()
    may_leave = asyncio.Event()
    # Each found an empty queue in its own process.
    heads = [first.start(queues, key, until_set=may_leave) for queues in (ours, theirs)]
    await until(lambda: first.inside == 2)
    waiting = [then.start(queues, key) for queues in (ours, theirs) for _ in range(30)]
    await asyncio.sleep(0)
    may_leave.set()
    await asyncio.gather(*heads)
    await asyncio.gather(*waiting)
    assert len(then.order) == 60
    assert then.most == 1
    assert await read_holder(redis, key) is None


async def test_process_with_a_long_queue_releases_the_lease(
    redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    ours = queues_of(redis, keep_seconds=0.02, lease_ttl=MINUTE)
    theirs, visits = queues_of(other_redis, keep_seconds=0.02, lease_ttl=MINUTE), Visits()
    over = asyncio.Event()

    async def keep_coming() -> None:
        while not over.is_set():
            await visits.make(ours, key, "ours")

    callers = [asyncio.create_task(keep_coming()) for _ in range(5)]
    await until(lambda: read_holder(redis, key))
    async with asyncio.timeout(30):  # shorter than the wait for a place
        await asyncio.gather(*(visits.make(theirs, key, "theirs") for _ in range(3)))
    over.set()
    await asyncio.gather(*callers)
    assert visits.order.count("theirs") == 3


async def test_lease_of_a_dead_process_expires(
    redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    await acquire_lease(other_redis, key, holder="dead by now", ttl=timedelta(seconds=0.3))
    queues, visits, may_leave = queues_of(redis), Visits(), asyncio.Event()
    head, second = (visits.start(queues, key, name, may_leave) for name in ("head", "second"))
    await until(lambda: visits.order == ["head"])
    may_leave.set()
    await asyncio.gather(head, second)
    assert visits.order == ["head", "second"]
    assert await read_holder(redis, key) is None, "the second caller did not wait for the lease"


async def test_callers_continue_without_a_place_after_too_long_a_wait(
    redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    await acquire_lease(other_redis, key, holder="other", ttl=MINUTE)
    queues, visits, may_leave = queues_of(redis, wait_seconds=0.5), Visits(), asyncio.Event()
    head = visits.start(queues, key, until_set=asyncio.Event())
    others = [visits.start(queues, key, until_set=may_leave) for _ in range(5)]
    await until(lambda: visits.inside == 1)
    head.cancel()
    # One of them waits for the lease in vain, the others for that one.
    await until(lambda: visits.inside == 5, seconds=30)
    may_leave.set()
    await asyncio.gather(*others)
    assert await release_lease(other_redis, key, holder="other"), "another process's lease was taken away"


@pytest.mark.parametrize("fails", ["stopped", "frozen"])
async def test_callers_enter_while_redis_is_away(server: PrivateRedis, key: str, fails: str) -> None:
    client = RedisClient(server.url, limits=RedisLimits(answer_seconds=0.2, away_seconds=0.05))
    queues, visits = queues_of(client), Visits()
    await asyncio.gather(*(visits.make(queues, key) for _ in range(5)))
    if fails == "frozen":
        server.freeze()
    else:
        await server.stop()
    await asyncio.gather(*(visits.make(queues, key) for _ in range(20)))
    assert len(visits.order) == 25
    assert visits.most == 1, "in this process still one by one"
    if fails == "frozen":
        server.thaw()
    await client.close()


async def test_lease_taken_after_a_flush_stays_with_its_new_holder(
    server: PrivateRedis, redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    queues, visits, may_leave = queues_of(redis), Visits(), asyncio.Event()
    head = visits.start(queues, key, until_set=asyncio.Event())
    second = visits.start(queues, key, until_set=may_leave)
    await until(lambda: visits.inside == 1)
    head.cancel()
    await until(lambda: read_holder(redis, key))
    await server.command("FLUSHALL")
    assert await acquire_lease(other_redis, key, holder="another process", ttl=MINUTE)
    may_leave.set()
    await second
    assert await read_holder(redis, key) == "another process"


async def test_canceled_callers_leave_no_lease_and_no_queue(redis: RedisClient, key: str) -> None:
    queues, visits, never = queues_of(redis), Visits(), asyncio.Event()
    tasks = [visits.start(queues, key, str(number), never) for number in range(4)]
    await until(lambda: visits.inside == 1)
    tasks[2].cancel()
    tasks[0].cancel()
    await until(lambda: visits.order == ["0", "1"] and visits.inside == 1)
    assert await until(lambda: read_holder(redis, key))
    tasks[1].cancel()
    await until(lambda: visits.order == ["0", "1", "3"])
    tasks[3].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert await read_holder(redis, key) is None
    assert queues._queues == {}


async def test_lease_is_released_if_its_request_is_canceled(
    server: PrivateRedis, redis: RedisClient, key: str
) -> None:
    queues, visits, may_leave = queues_of(redis), Visits(), asyncio.Event()
    await asyncio.gather(*(visits.make(queues, key) for _ in range(2)))  # Redis has cached the scripts
    head = visits.start(queues, key, until_set=may_leave)
    await until(lambda: visits.inside == 1)
    second = visits.start(queues, key)
    await asyncio.sleep(0)
    server.freeze()
    may_leave.set()
    await head
    await until(lambda: queues._queues[key].holder is not None)  # the request was sent; its answer will come
    second.cancel()
    server.thaw()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await read_holder(redis, key) is None
    assert queues._queues == {}


async def test_no_key_is_left_in_redis(server: PrivateRedis, redis: RedisClient, key: str) -> None:
    queues, visits = queues_of(redis), Visits()
    with pytest.raises(RedisAway):
        async with queues.enter(key):
            raise RedisAway
    await asyncio.gather(*(visits.make(queues, f"{key} {number % 5}") for number in range(50)))
    assert queues._queues == {}
    assert await server.command("KEYS", "lock:*") == []
