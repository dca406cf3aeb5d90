"""Outages of Redis: calls fail soon, and work again when it is back."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from redis import exceptions

from catraca.platform.redis_client import AWAY, RedisAway, RedisClient, RedisLimits, Script
from tests.servers import until
from tests.support.redis_server import PATIENT, PrivateRedis

ADD = Script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
# Short for quick tests, but long enough for a busy machine.
LIMITS = RedisLimits(connections=4, answer_seconds=1, away_seconds=0.05)


@pytest.fixture
async def client(server: PrivateRedis) -> AsyncIterator[RedisClient]:
    client = RedisClient(server.url, limits=LIMITS)
    yield client
    await client.close()


async def works(client: RedisClient) -> bool:
    try:
        await client.script(ADD, ["works"], [1])
    except RedisAway:
        return False
    return True


async def echo(client: Any, text: str) -> bytes:
    return await client.execute_command("ECHO", text)


async def test_script_is_sent_whole_only_if_unknown(server: PrivateRedis, client: RedisClient) -> None:
    assert await client.script(ADD, ["sum"], [2]) == 2
    await server.command("CONFIG", "RESETSTAT")
    assert await client.script(ADD, ["sum"], [3]) == 5
    stats = await server.command("INFO", "commandstats")
    assert isinstance(stats, dict)
    assert "cmdstat_evalsha" in stats
    assert "cmdstat_eval" not in stats


async def test_script_is_sent_again_after_a_flush(server: PrivateRedis, client: RedisClient) -> None:
    assert await client.script(ADD, ["sum"], [2]) == 2
    await server.command("FLUSHALL")
    await server.command("SCRIPT", "FLUSH")
    assert await client.script(ADD, ["sum"], [3]) == 3


async def test_only_the_first_call_waits_for_a_frozen_server(
    server: PrivateRedis, client: RedisClient
) -> None:
    assert await works(client)
    patient = RedisClient(server.url, limits=RedisLimits(answer_seconds=1))
    assert await works(patient)
    server.freeze()
    with pytest.raises(RedisAway):
        await patient.script(ADD, ["sum"], [1])
    # These calls use no network, or they would take a second each.
    async with asyncio.timeout(10):
        for _ in range(1000):
            with pytest.raises(RedisAway):
                await patient.script(ADD, ["sum"], [1])
    assert not await client.is_up()
    server.thaw()
    await until(lambda: works(client))
    await until(patient.is_up)
    assert await works(patient)
    await patient.close()


def be_busy() -> None:
    """Block the event loop for longer than the timeout of an answer."""
    time.sleep(LIMITS.answer_seconds + 0.2)


async def test_late_answer_to_a_busy_process_is_not_an_outage(client: RedisClient) -> None:
    assert await works(client)
    calls = [asyncio.create_task(works(client)) for _ in range(3)]
    await asyncio.sleep(0)
    be_busy()
    await asyncio.gather(*calls)
    assert client.seems_up()


async def test_busy_process_notices_a_frozen_server(server: PrivateRedis, client: RedisClient) -> None:
    assert await works(client)
    server.freeze()
    for _ in range(2):
        call = asyncio.create_task(works(client))
        await asyncio.sleep(0)
        be_busy()
        assert not await call
    assert not client.seems_up()
    server.thaw()


async def test_stopped_server_is_away_and_back_after_a_restart(
    server: PrivateRedis, client: RedisClient
) -> None:
    assert await asyncio.gather(*(works(client) for _ in range(4))) == [True] * 4
    before = AWAY._value.get()
    await server.stop()
    assert not await works(client)
    assert not await works(client)
    assert not await client.is_up()
    assert AWAY._value.get() == before + 1
    await server.start()
    await until(lambda: works(client))
    # The connections from before the restart were closed together, not one per failed call.
    assert await asyncio.gather(*(works(client) for _ in range(4))) == [True] * 4


async def test_server_out_of_memory_is_away_until_it_has_some(
    server: PrivateRedis, client: RedisClient
) -> None:
    assert await works(client)
    await server.command("CONFIG", "SET", "maxmemory", "1")
    assert not await works(client)
    await server.command("CONFIG", "SET", "maxmemory", "0")
    await until(lambda: works(client))


async def test_read_only_replica_is_away(server: PrivateRedis, client: RedisClient) -> None:
    assert await works(client)
    await server.command("REPLICAOF", "127.0.0.1", "1")
    assert not await works(client)
    await server.command("REPLICAOF", "NO", "ONE")
    await until(lambda: works(client))


async def test_loading_server_is_away(client: RedisClient) -> None:
    async def loading(_: Any) -> None:
        raise exceptions.BusyLoadingError("Redis is loading the dataset in memory")

    with pytest.raises(RedisAway):
        await client.run(loading)
    await until(lambda: works(client))


async def test_broken_script_is_an_error_not_an_outage(client: RedisClient) -> None:
    with pytest.raises(exceptions.ResponseError):
        await client.script(Script("return no_such_thing.field"), [], [])
    assert await works(client)


async def test_missing_redis_does_not_fail_the_start() -> None:
    for url in ("redis://127.0.0.1:1/0", "unix:///nowhere/redis.sock", None):
        client = RedisClient(url, limits=LIMITS)
        assert not await works(client)
        assert not await client.is_up()
        await client.close()


async def test_canceled_calls_lose_no_connection_and_mix_no_replies(
    server: PrivateRedis,
) -> None:
    client = RedisClient(server.url, limits=PATIENT)
    assert await works(client)
    for round_number in range(50):
        calls = [
            asyncio.create_task(client.run(lambda c, n=number: echo(c, f"early {n}"))) for number in range(8)
        ]
        for _ in range(round_number % 7):  # cancel at every stage: waiting, sending, reading, releasing
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        texts = [f"{round_number} {number}" for number in range(8)]
        replies = await asyncio.gather(*(client.run(lambda c, t=text: echo(c, t)) for text in texts))
        assert replies == [text.encode() for text in texts]
    assert await works(client)
    await client.close()


async def test_canceled_calls_to_a_frozen_server_lose_no_connection(
    server: PrivateRedis, client: RedisClient
) -> None:
    assert await works(client)
    server.freeze()
    calls = [asyncio.create_task(client.run(lambda c: echo(c, "early"))) for _ in range(16)]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    await asyncio.wait(calls)
    server.thaw()
    expected = [str(number).encode() for number in range(16)]

    async def all_reply() -> bool:
        replies = await asyncio.gather(
            *(client.run(lambda c, n=number: echo(c, str(n))) for number in range(16)), return_exceptions=True
        )
        assert all(
            isinstance(got, RedisAway) or got == own for got, own in zip(replies, expected, strict=True)
        )
        return replies == expected

    await until(all_reply)


async def test_calls_share_a_bounded_number_of_connections(server: PrivateRedis, client: RedisClient) -> None:
    before = await clients_of(server)
    sums = await asyncio.gather(*(client.script(ADD, ["sum"], [1]) for _ in range(100)))
    assert sorted(sums) == list(range(1, 101))
    assert await clients_of(server) - before == LIMITS.connections


async def clients_of(server: PrivateRedis) -> int:
    stats = await server.command("INFO", "clients")
    assert isinstance(stats, dict)
    return stats["connected_clients"]


async def test_connection_closed_while_idle_is_opened_again(
    server: PrivateRedis, client: RedisClient
) -> None:
    """As by a server with a limit on idle time."""
    assert await works(client)
    (idle,) = client._client.connection_pool._idle
    await server.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await until(idle.can_read)
    before = AWAY._value.get()
    assert await works(client)
    assert AWAY._value.get() == before


async def test_dead_idle_connections_are_dropped_together(server: PrivateRedis) -> None:
    async with relay_to(server) as (port, silence):
        client = RedisClient(f"redis://127.0.0.1:{port}/0", limits=LIMITS)
        assert await asyncio.gather(*(works(client) for _ in range(4))) == [True] * 4
        silence()
        assert not await works(client)
        await until(client.is_up)
        assert await asyncio.gather(*(works(client) for _ in range(4))) == [True] * 4
        await client.close()


@asynccontextmanager
async def relay_to(server: PrivateRedis) -> AsyncIterator[tuple[int, Callable[[], None]]]:
    """A TCP proxy to the server, whose existing connections can be silenced."""
    generation, open_ends = 0, list[asyncio.StreamWriter]()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        born = generation
        while data := await reader.read(65536):
            if generation == born:
                writer.write(data)

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = server.url.removeprefix("unix://").partition("?")[0]
        redis_reader, redis_writer = await asyncio.open_unix_connection(path)
        open_ends.extend((writer, redis_writer))
        with suppress(ConnectionError):
            await asyncio.gather(carry(reader, redis_writer), carry(redis_reader, writer))

    def silence() -> None:
        nonlocal generation
        generation += 1

    relay = await asyncio.start_server(connect, "127.0.0.1", 0)
    try:
        yield relay.sockets[0].getsockname()[1], silence
    finally:
        for end in open_ends:
            end.close()
        relay.close()
        await relay.wait_closed()


async def test_closed_client_is_away(client: RedisClient) -> None:
    assert await works(client)
    await client.close()
    assert not await works(client)
    assert not await client.is_up()
