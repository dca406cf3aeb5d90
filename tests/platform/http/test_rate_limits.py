"""Rate limits: counted in Redis for all processes, in each process while Redis is away."""

import asyncio
import re
from dataclasses import replace
from ipaddress import ip_network
from uuid import uuid4

import pytest

from catraca.platform.clock import monotonic_seconds
from catraca.platform.http.health import Health
from catraca.platform.http.rate_limits import BUCKETS_KEPT, Hit, LocalBuckets, RateLimit, RateLimiter
from catraca.platform.redis_client import RedisClient, RedisLimits
from catraca.roles.api import build_app
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.servers import Stack, until
from tests.support.http import served, serving
from tests.support.redis_server import PATIENT, PrivateRedis, private_redis

KEY = b"a key of the tests' own"
FEW = RateLimit(3, 60)


def test_rates_are_parsed_as_count_per_unit() -> None:
    assert RateLimit.parse("600/minute") == RateLimit(600, 60)
    assert RateLimit.parse(" 5 / second ") == RateLimit(5, 1)
    for wrong in ("", "600", "0/minute", "-1/minute", "5/week", "1.5/second", "٣/second", "9" * 30 + "/day"):
        with pytest.raises(ValueError, match="write it as"):
            RateLimit.parse(wrong)


async def test_burst_passes_up_to_the_count_and_then_must_wait(redis: RedisClient) -> None:
    limiter = RateLimiter(redis, key=KEY)
    verdicts = [await limiter.hit("a", FEW) for _ in range(5)]
    assert verdicts[:3] == [None, None, None]
    assert all(verdict is not None and 19 < verdict <= 20 for verdict in verdicts[3:])
    assert await limiter.hit("b", FEW) is None


async def test_burst_is_exact_with_uneven_steps(redis: RedisClient) -> None:
    limiter = RateLimiter(redis, key=KEY)
    for limit in (RateLimit(7, 3600), RateLimit(1, 86400), RateLimit(11, 86400)):
        verdicts = [await limiter.hit(f"bucket {limit}", limit) for _ in range(limit.count + 1)]
        assert verdicts.index(next(filter(None, verdicts))) == limit.count
        local = LocalBuckets()
        assert [local.hit(Hit.of(b"a", limit)) for _ in range(limit.count)] == [None] * limit.count
        assert local.hit(Hit.of(b"a", limit)) is not None


@pytest.mark.parametrize("is_shared", [True, False], ids=["Redis", "one process"])
async def test_cost_counts_as_many_requests(redis: RedisClient, is_shared: bool) -> None:
    limiter, local = RateLimiter(redis, key=KEY), LocalBuckets()

    async def hit(bucket: str, cost: int) -> float | None:
        if is_shared:
            return await limiter.hit(bucket, RateLimit(10, 3600), cost=cost)
        return local.hit(Hit.of(bucket.encode(), RateLimit(10, 3600), cost=cost))

    assert [await hit("a", 4), await hit("a", 4)] == [None, None]
    wait_seconds = await hit("a", 4)
    assert wait_seconds is not None
    assert 710 < wait_seconds <= 720  # two of the four still fit
    assert [await hit("a", 1), await hit("a", 1)] == [None, None]
    assert await hit("a", 1) is not None


async def test_cost_beyond_the_limit_passes_an_empty_bucket(redis: RedisClient) -> None:
    limiter = RateLimiter(redis, key=KEY)
    assert await limiter.hit("a", FEW, cost=1000) is None
    wait_seconds = await limiter.hit("a", FEW, cost=1000)
    assert wait_seconds is not None
    assert wait_seconds <= 60


async def test_expensive_request_passes_with_a_small_limit(parts: Parts) -> None:
    query = {"service_id": str(uuid4()), "from": "2030-01-01T00:00:00Z", "to": "2030-03-31T00:00:00Z"}
    path, me = "/v1/scheduling/availability", bearer()
    async with served(parts, rate_limit_principal="10/hour") as to, to.client() as client:
        assert (await client.get(path, params=query, headers=me)).status_code == 404
        other = bearer()
        assert (await client.get("/v1/me", headers=other)).status_code == 200
        refused = await client.get(path, params=query, headers=other)
        assert refused.status_code == 429
        # Both requests have left the bucket by then.
        assert 700 < int(refused.headers["retry-after"]) <= 720


async def test_request_passes_after_the_returned_wait(redis: RedisClient) -> None:
    limiter, limit = RateLimiter(redis, key=KEY), RateLimit(20, 1)
    while (wait_seconds := await limiter.hit("a", limit)) is None:
        pass
    passes_at = monotonic_seconds() + wait_seconds
    await until(lambda: monotonic_seconds() >= passes_at)  # uvloop's sleep may end a millisecond early
    assert await limiter.hit("a", limit) is None


async def test_all_processes_share_one_bucket(server: PrivateRedis, redis: RedisClient) -> None:
    other = RedisClient(server.url, limits=PATIENT)
    limiters = [RateLimiter(redis, key=KEY), RateLimiter(other, key=KEY)]
    limit = RateLimit(100, 3600)
    verdicts = await asyncio.gather(*(limiters[n % 2].hit("a", limit) for n in range(150)))
    assert verdicts.count(None) == 100
    await other.close()


async def test_concurrent_hits_share_round_trips(server: PrivateRedis, redis: RedisClient) -> None:
    limiter, limit = RateLimiter(redis, key=KEY), RateLimit(7, 60)
    await limiter.hit("warm", limit)
    await server.command("CONFIG", "RESETSTAT")
    buckets = [f"bucket {number % 40}" for number in range(200)]
    assert await asyncio.gather(*(limiter.hit(bucket, limit) for bucket in buckets)) == [None] * 200
    assert await _scripts_run(server) == 1


async def _scripts_run(server: PrivateRedis) -> int:
    stats = await server.command("INFO", "commandstats")
    assert isinstance(stats, dict)
    return stats.get("cmdstat_evalsha", {"calls": 0})["calls"]


async def test_bucket_with_much_room_is_counted_later_and_together(
    server: PrivateRedis, redis: RedisClient
) -> None:
    limiter, other = RateLimiter(redis, key=KEY), RateLimiter(redis, key=KEY)
    limit = RateLimit(80, 3600)
    await limiter.hit("warm", limit, counts=False)
    await server.command("CONFIG", "RESETSTAT")
    # An eighth of the limit, in two buckets.
    assert [await limiter.hit(f"{number % 2}", limit) for number in range(20)] == [None] * 20
    assert await _scripts_run(server) == 0
    await until(lambda: _is_full(other, "0", limit, cost=71))
    assert not await _is_full(other, "0", limit, cost=70)
    assert await _is_full(other, "1", limit, cost=71)


async def test_small_limit_is_exact_across_processes(redis: RedisClient) -> None:
    limit = RateLimit(50, 3600)
    limiters = [RateLimiter(redis, key=KEY) for _ in range(4)]
    hits = (limiter.hit("a", limit) for _ in range(20) for limiter in limiters)
    assert (await asyncio.gather(*hits)).count(None) == 50


async def _is_full(limiter: RateLimiter, bucket: str, limit: RateLimit, *, cost: int) -> bool:
    return await limiter.hit(bucket, limit, counts=False, cost=cost) is not None


async def test_process_asks_when_the_bucket_has_little_room(redis: RedisClient) -> None:
    limiter, other = RateLimiter(redis, key=KEY), RateLimiter(redis, key=KEY)
    limit = RateLimit(80, 3600)
    assert await other.hit("a", limit, cost=80) is None
    passed = [await limiter.hit("a", limit) for _ in range(12)]
    # What the process did not know: at most an eighth passes until it asks.
    assert passed[:10] == [None] * 10
    assert None not in passed[10:]
    await asyncio.gather(*(limiter.hit("a", limit) for _ in range(3)))
    assert await limiter.hit("a", limit) is not None


async def test_each_process_counts_alone_while_redis_is_away(
    server: PrivateRedis, redis: RedisClient
) -> None:
    limiter = RateLimiter(redis, key=KEY)
    assert await limiter.hit("a", FEW) is None
    await server.stop()
    # The process knows the request that Redis has counted.
    verdicts = [await limiter.hit("a", FEW) for _ in range(4)]
    assert verdicts[:2] == [None, None]
    assert None not in verdicts[2:]
    await server.start()
    await until(redis.is_up)
    assert await limiter.hit("a", FEW) is None  # a flushed Redis starts again


async def test_keys_in_redis_have_no_personal_data_and_expire(
    server: PrivateRedis, redis: RedisClient
) -> None:
    limiter = RateLimiter(redis, key=KEY)
    await limiter.hit("address:203.0.113.9", FEW)
    await limiter.hit("address:203.0.113.9", FEW)
    keys = await server.command("KEYS", "*")
    assert isinstance(keys, list)
    assert len(keys) == 1
    assert re.fullmatch(rb"catraca:rate:[0-9a-f]{32}", keys[0])
    other = RateLimiter(redis, key=b"the key of another installation")
    await other.hit("address:203.0.113.9", FEW)
    assert await server.command("DBSIZE") == 2
    lifetime = await server.command("PTTL", keys[0])
    assert isinstance(lifetime, int)
    assert 39_000 < lifetime <= 40_000


async def test_clock_set_back_or_smaller_limit_locks_no_caller_out(
    server: PrivateRedis, redis: RedisClient
) -> None:
    limiter, narrow = RateLimiter(redis, key=KEY), RateLimit(7, 1)
    await limiter.hit("a", narrow)
    keys = await server.command("KEYS", "*")
    assert isinstance(keys, list)
    await server.command("SET", keys[0], "9999999999000000")
    wait_seconds = await limiter.hit("a", narrow)
    assert wait_seconds is not None
    assert wait_seconds <= 1
    await server.command("SET", keys[0], "not a number")
    assert await limiter.hit("a", narrow) is None


async def test_changed_limit_starts_with_an_empty_bucket(redis: RedisClient) -> None:
    before, after = RateLimiter(redis, key=KEY), RateLimiter(redis, key=KEY)
    verdicts = [await before.hit("a", RateLimit(1, 3600)) for _ in range(2)]
    assert None not in verdicts[1:]
    assert await after.hit("a", RateLimit(1_000_000, 1)) is None


def test_local_buckets_are_bounded_and_drop_the_least_recent() -> None:
    buckets = LocalBuckets()

    def passes(bucket: str) -> bool:
        return buckets.hit(Hit.of(bucket.encode(), RateLimit(1, 3600))) is None

    assert passes("first")
    for number in range(BUCKETS_KEPT - 1):
        passes(str(number))
    assert not passes("first")  # still kept, and now the most recent
    passes("one more")
    assert not passes("first")
    assert passes("0")  # dropped
    assert len(buckets._empty_at) == BUCKETS_KEPT


async def test_too_many_requests_are_refused_with_retry_after(parts: Parts) -> None:
    me = {**bearer(), "accept-language": "en"}
    async with served(parts, rate_limit_principal="2/hour") as to, to.client() as client:
        answers = [await client.get("/v1/me", headers=me) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        refused = answers[2]
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["code"] == "too_many_requests"
        assert int(refused.headers["retry-after"]) == refused.json()["retry_after_seconds"] == 1800
        # Two people at one address are two callers.
        assert (await client.get("/v1/me", headers=bearer())).status_code == 200


async def test_anonymous_calls_are_counted_by_address_but_not_health(parts: Parts) -> None:
    address = ".".join(str(byte) for byte in (10, *uuid4().bytes[:3]))
    settings = {"rate_limit_anonymous": "2/hour", "trusted_proxies": [ip_network("127.0.0.1")]}
    async with served(parts, **settings) as to, to.client() as client:
        client.headers["x-forwarded-for"] = address
        assert (await client.get("/v1/me")).status_code == 401
        assert (await client.get("/v1/me", headers={"authorization": "Bearer x"})).status_code == 401
        assert (await client.get("/v1/me")).status_code == 429
        assert (await client.get("/v1/me", headers={"authorization": "Bearer x"})).status_code == 429
        assert [(await client.get(path)).status_code for path in ("/livez", "/readyz")] == [200, 200]
        assert (await client.get("/v1/me", headers=bearer())).status_code == 200


async def test_ipv6_network_is_one_caller_and_mapped_ipv4_is_ipv4(parts: Parts) -> None:
    part = uuid4().hex
    net = f"2001:db8:{part[:4]}:{part[4:8]}"
    one, other = ("::ffff:10." + ".".join(str(byte) for byte in uuid4().bytes[:3]) for _ in range(2))
    settings = {"rate_limit_anonymous": "1/hour", "trusted_proxies": [ip_network("127.0.0.1")]}
    async with served(parts, **settings) as to, to.client() as client:

        async def status(address: str) -> int:
            return (await client.get("/docs", headers={"x-forwarded-for": address})).status_code

        assert [await status(f"{net}::1"), await status(f"{net}:ffff::2")] == [200, 429]
        assert await status(f"2001:db8:{part[8:12]}:{part[12:16]}::1") == 200
        assert [await status(one), await status(other), await status(one)] == [200, 200, 429]


async def test_stopped_redis_is_visible_only_in_readiness(stack: Stack, parts: Parts) -> None:
    async with private_redis(stack) as server:
        client = RedisClient(server.url, limits=RedisLimits(away_seconds=0.05))
        with_redis = replace(parts, redis=client)
        health = Health(required={"database": parts.database.is_up}, reported={"redis": client.is_up})
        async with serving(build_app(with_redis, health)) as to, to.client() as http:

            async def redis_is(state: str) -> bool:
                answer = await http.get("/readyz")
                assert answer.status_code == 200
                return answer.json()["parts"]["redis"] == state

            me = bearer()
            await until(lambda: redis_is("up"))
            assert (await http.get("/v1/me", headers=me)).status_code == 200
            await server.stop()
            assert (await http.get("/v1/me", headers=me)).status_code == 200
            assert await redis_is("down")
            assert (await http.get("/v1/me", headers=me)).status_code == 200
            await server.start()
            server.freeze()
            assert (await http.get("/v1/me", headers=me)).status_code == 200
            assert await redis_is("down")
            server.thaw()
            await until(lambda: redis_is("up"))
        await client.close()
