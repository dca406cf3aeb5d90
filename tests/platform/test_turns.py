"""Turns on a real Redis: one at a time where there is a line; a Redis that is away keeps nobody waiting."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

import pytest

from catraca.platform import turns as module
from catraca.platform.leases import acquire_lease, read_holder, release_lease
from catraca.platform.redis_client import RedisAway, RedisClient, RedisLimits
from catraca.platform.turns import Turns
from tests.servers import Stack, until
from tests.support.redis_server import PATIENT, PrivateRedis, private_redis

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def server(stack: Stack) -> AsyncIterator[PrivateRedis]:
    async with private_redis(stack) as server:
        yield server


@pytest.fixture
async def redis(server: PrivateRedis) -> AsyncIterator[RedisClient]:
    client = RedisClient(server.url, limits=PATIENT)
    yield client
    await client.close()


@pytest.fixture
async def other_redis(server: PrivateRedis) -> AsyncIterator[RedisClient]:
    """Another process's."""
    client = RedisClient(server.url, limits=PATIENT)
    yield client
    await client.close()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gives up because the machine stands still."""
    monkeypatch.setattr(module, "WAIT_SECONDS", 60.0)


@pytest.fixture
def key() -> str:
    return f"lock:worker:{uuid4()}"


@dataclass
class Visits:
    """Who came in, and how many were in at once."""

    order: list[str] = field(default_factory=list)
    inside: int = 0
    most: int = 0

    async def pay(
        self, turns: Turns, key: str, name: str = "", until_set: asyncio.Event | None = None
    ) -> None:
        async with turns.take(key):
            self.order.append(name)
            self.inside += 1
            self.most = max(self.most, self.inside)
            try:
                await (asyncio.sleep(0.001) if until_set is None else until_set.wait())
            finally:
                self.inside -= 1

    def start(self, turns: Turns, key: str, name: str = "", until_set: asyncio.Event | None = None):
        return asyncio.create_task(self.pay(turns, key, name, until_set))


async def test_within_a_process_one_at_a_time_first_come_first_served(redis: RedisClient, key: str) -> None:
    turns, visits = Turns(redis), Visits()
    names = [str(number) for number in range(20)]
    await asyncio.gather(*(visits.pay(turns, key, name) for name in names))
    assert visits.order == names
    assert visits.most == 1


async def test_whoever_is_alone_goes_ahead_without_asking_redis(redis: RedisClient, key: str) -> None:
    turns = Turns(redis)
    async with turns.take(key):
        assert await read_holder(redis, key) is None


async def test_others_lines_are_not_waited_in(redis: RedisClient, key: str) -> None:
    turns = Turns(redis)
    async with turns.take(key), turns.take(f"{key} another"):
        pass


async def test_where_there_are_lines_one_at_a_time_among_processes(
    redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    ours, theirs, first, then = Turns(redis), Turns(other_redis), Visits(), Visits()
    may_leave = asyncio.Event()
    # Two who found nobody before them, each in a process of its own.
    heads = [first.start(turns, key, until_set=may_leave) for turns in (ours, theirs)]
    await until(lambda: first.inside == 2)
    waiting = [then.start(turns, key) for turns in (ours, theirs) for _ in range(30)]
    await asyncio.sleep(0)
    may_leave.set()
    await asyncio.gather(*heads)
    await asyncio.gather(*waiting)
    assert len(then.order) == 60
    assert then.most == 1
    assert await read_holder(redis, key) is None


async def test_a_process_with_a_long_line_lets_the_others_come(
    monkeypatch: pytest.MonkeyPatch, redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    monkeypatch.setattr(module, "KEPT_SECONDS", 0.02)
    monkeypatch.setattr(module, "TURN_TTL", MINUTE)
    ours, theirs, visits = Turns(redis), Turns(other_redis), Visits()
    over = asyncio.Event()

    async def keep_coming() -> None:
        while not over.is_set():
            await visits.pay(ours, key, "ours")

    line = [asyncio.create_task(keep_coming()) for _ in range(5)]
    await until(lambda: read_holder(redis, key))
    async with asyncio.timeout(30):  # sooner than anybody gives up
        await asyncio.gather(*(visits.pay(theirs, key, "theirs") for _ in range(3)))
    over.set()
    await asyncio.gather(*line)
    assert visits.order.count("theirs") == 3


async def test_a_dead_holders_turn_ends_by_itself(
    redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    await acquire_lease(other_redis, key, holder="dead by now", ttl=timedelta(seconds=0.3))
    turns, visits, may_leave = Turns(redis), Visits(), asyncio.Event()
    head, second = (visits.start(turns, key, name, may_leave) for name in ("head", "second"))
    await until(lambda: visits.order == ["head"])
    may_leave.set()
    await asyncio.gather(head, second)
    assert visits.order == ["head", "second"]
    assert await read_holder(redis, key) is None, "it was not waited for"


async def test_after_too_long_a_wait_one_goes_on_without(
    monkeypatch: pytest.MonkeyPatch, redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.5)
    await acquire_lease(other_redis, key, holder="somebody", ttl=MINUTE)
    turns, visits, may_leave = Turns(redis), Visits(), asyncio.Event()
    head = visits.start(turns, key, until_set=asyncio.Event())
    others = [visits.start(turns, key, until_set=may_leave) for _ in range(5)]
    await until(lambda: visits.inside == 1)
    head.cancel()
    # One of them waits for Redis in vain, the others for that one.
    await until(lambda: visits.inside == 5, seconds=30)
    may_leave.set()
    await asyncio.gather(*others)
    assert await release_lease(other_redis, key, holder="somebody"), "another's was taken away"


@pytest.mark.parametrize("fails", ["stopped", "frozen"])
async def test_a_redis_that_is_away_keeps_nobody(server: PrivateRedis, key: str, fails: str) -> None:
    client = RedisClient(server.url, limits=RedisLimits(answer_seconds=0.2, away_seconds=0.05))
    turns, visits = Turns(client), Visits()
    await asyncio.gather(*(visits.pay(turns, key) for _ in range(5)))
    if fails == "frozen":
        server.freeze()
    else:
        await server.stop()
    await asyncio.gather(*(visits.pay(turns, key) for _ in range(20)))
    assert len(visits.order) == 25
    assert visits.most == 1, "in this process still one after the other"
    if fails == "frozen":
        server.thaw()
    await client.close()


async def test_a_redis_that_was_emptied_lets_others_in_and_their_turn_stays_theirs(
    server: PrivateRedis, redis: RedisClient, other_redis: RedisClient, key: str
) -> None:
    turns, visits, may_leave = Turns(redis), Visits(), asyncio.Event()
    head = visits.start(turns, key, until_set=asyncio.Event())
    second = visits.start(turns, key, until_set=may_leave)
    await until(lambda: visits.inside == 1)
    head.cancel()
    await until(lambda: read_holder(redis, key))
    await server.command("FLUSHALL")
    assert await acquire_lease(other_redis, key, holder="another process", ttl=MINUTE)
    may_leave.set()
    await second
    assert await read_holder(redis, key) == "another process"


async def test_whoever_is_canceled_within_or_in_line_leaves_nothing_behind(
    redis: RedisClient, key: str
) -> None:
    turns, visits, never = Turns(redis), Visits(), asyncio.Event()
    tasks = [visits.start(turns, key, str(number), never) for number in range(4)]
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
    assert turns._lines == {}


async def test_canceled_while_asking_redis_it_is_given_back(
    server: PrivateRedis, redis: RedisClient, key: str
) -> None:
    turns, visits, may_leave = Turns(redis), Visits(), asyncio.Event()
    await asyncio.gather(*(visits.pay(turns, key) for _ in range(2)))  # Redis knows the scripts by now
    head = visits.start(turns, key, until_set=may_leave)
    await until(lambda: visits.inside == 1)
    second = visits.start(turns, key)
    await asyncio.sleep(0)
    server.freeze()
    may_leave.set()
    await head
    await asyncio.sleep(0.05)  # the question is on its way, and will be answered
    second.cancel()
    server.thaw()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await read_holder(redis, key) is None
    assert turns._lines == {}


async def test_no_key_is_left_behind(server: PrivateRedis, redis: RedisClient, key: str) -> None:
    turns, visits = Turns(redis), Visits()
    with pytest.raises(RedisAway):
        async with turns.take(key):
            raise RedisAway
    await asyncio.gather(*(visits.pay(turns, f"{key} {number % 5}") for number in range(50)))
    assert turns._lines == {}
    kept = await server.command("KEYS", "lock:*")
    assert kept == []
