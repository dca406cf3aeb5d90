"""Leases on a real Redis: at most one holder, and growing fences, even if Redis loses its data."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catraca.platform.leases import Lease, acquire_lease, acquire_leases, read_holder, release_lease
from catraca.platform.redis_client import RedisAway, RedisClient, RedisLimits
from tests.servers import Stack, until
from tests.support.examples import examples
from tests.support.redis_server import PATIENT, PrivateRedis, private_redis

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture(scope="session")
async def server(stack: Stack) -> AsyncIterator[PrivateRedis]:
    async with private_redis(stack) as server:
        yield server


@pytest.fixture(scope="session")
async def redis(server: PrivateRedis) -> AsyncIterator[RedisClient]:
    client = RedisClient(server.url, limits=PATIENT)
    yield client
    await client.close()


@pytest.fixture
def key() -> str:
    return f"a lease {uuid4()}"


async def acquire(redis: RedisClient, key: str, holder: str, ttl: timedelta = MINUTE) -> Lease:
    lease = await acquire_lease(redis, key, holder=holder, ttl=ttl)
    assert lease is not None
    return lease


async def is_held_by_another(redis: RedisClient, key: str, holder: str) -> bool:
    return await acquire_lease(redis, key, holder=holder, ttl=MINUTE) is None


async def test_second_holder_is_refused_until_the_release(redis: RedisClient, key: str) -> None:
    first = await acquire(redis, key, "ana")
    assert await is_held_by_another(redis, key, "bia")
    assert await release_lease(redis, key, holder="bia") is False
    assert await is_held_by_another(redis, key, "bia"), "only the holder lets go"
    assert await release_lease(redis, key, holder="ana") is True
    assert await release_lease(redis, key, holder="ana") is False
    assert (await acquire(redis, key, "bia")).fence > first.fence


async def test_leases_of_one_call_have_their_own_holders(redis: RedisClient, key: str) -> None:
    free, held, own = (f"{key} {number}" for number in range(3))
    await acquire(redis, held, "ana")
    before = await acquire(redis, own, "caio")
    wanted = {held: "bia", free: "davi", own: "caio"}
    refused, fresh, renewed = await acquire_leases(redis, wanted, ttl=HOUR)
    assert refused is None
    assert fresh is not None
    assert fresh.fence > before.fence
    assert renewed is not None
    assert (renewed.fence, renewed.renewed) == (before.fence, True)
    assert renewed.expires_at > before.expires_at
    assert [await read_holder(redis, one) for one in wanted] == ["ana", "davi", "caio"]


async def test_renewal_never_shortens_and_keeps_the_fence(redis: RedisClient, key: str) -> None:
    first = await acquire(redis, key, "ana", HOUR)
    shorter = await acquire(redis, key, "ana", MINUTE)
    longer = await acquire(redis, key, "ana", 2 * HOUR)
    assert abs(shorter.expires_at - first.expires_at) < timedelta(seconds=1)
    assert longer.expires_at - first.expires_at > timedelta(minutes=59)
    assert first.fence == shorter.fence == longer.fence
    assert (first.renewed, shorter.renewed, longer.renewed) == (False, True, True)


async def test_lease_expires_at_its_time(server: PrivateRedis, redis: RedisClient, key: str) -> None:
    lease = await acquire(redis, key, "ana", timedelta(milliseconds=200))
    await until(lambda: acquire_lease(redis, key, holder="bia", ttl=MINUTE))
    seconds, microseconds = await server.command("TIME")  # type: ignore[misc]
    assert lease.expires_at <= datetime.fromtimestamp(int(seconds), UTC) + timedelta(
        microseconds=int(microseconds)
    )


async def test_one_of_many_concurrent_holders_gets_the_lease(redis: RedisClient, key: str) -> None:
    held = await asyncio.gather(*(acquire_lease(redis, key, holder=str(n), ttl=MINUTE) for n in range(100)))
    assert sum(lease is not None for lease in held) == 1


async def test_redis_outage_is_neither_free_nor_held(stack: Stack, key: str) -> None:
    async with private_redis(stack) as server:
        client = RedisClient(server.url, limits=RedisLimits(answer_seconds=1))
        await acquire(client, key, "ana")
        server.freeze()
        for holder in ("ana", "bia"):
            with pytest.raises(RedisAway):
                await acquire_lease(client, key, holder=holder, ttl=MINUTE)
            with pytest.raises(RedisAway):
                await release_lease(client, key, holder=holder)
        await client.close()


HOLDERS = ("ana", "bia", "caio")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("acquire"), st.sampled_from(HOLDERS)),
        st.tuples(st.just("release"), st.sampled_from(HOLDERS)),
        st.tuples(st.sampled_from(["lapse", "flush", "lose the count"]), st.just("")),
    ),
    min_size=2,
    max_size=25,
)


@settings(max_examples=examples(40), deadline=None)
@given(steps=STEPS)
async def test_lease_has_one_holder_and_fences_grow(
    server: PrivateRedis, redis: RedisClient, steps: list[tuple[str, str]]
) -> None:
    """Compared, step by step, with a model of a lease."""
    key, holder, fence = f"a lease {uuid4()}", None, 0
    for act, who in steps:
        if act == "acquire":
            lease = await acquire_lease(redis, key, holder=who, ttl=MINUTE)
            assert (lease is None) == (holder not in (None, who))
            if lease is not None:
                assert lease.fence == fence if holder == who else lease.fence > fence
                assert lease.renewed == (holder == who)
                holder, fence = who, lease.fence
        elif act == "release":
            assert await release_lease(redis, key, holder=who) == (holder == who)
            holder = None if holder == who else holder
        elif act == "lapse":
            await server.command("PEXPIRE", key, 0)
            holder = None
        elif act == "flush":
            await server.command("FLUSHALL")
            holder = None
        else:
            await server.command("DEL", "catraca:leases:fence")
