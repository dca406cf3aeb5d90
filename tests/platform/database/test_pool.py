"""Connections have one user at a time, are never lost, and are handed out in order."""

import asyncio
import random
from collections.abc import AsyncIterator

import asyncpg
import pytest

from catraca.platform.database import pool as module
from catraca.platform.database.pool import ConnectionPool
from tests.servers import Stack, until

SIZE = 3


@pytest.fixture
async def pool(stack: Stack) -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(lambda: asyncpg.connect(stack.database_url), size=SIZE)
    yield pool
    pool.close()


async def take_all(pool: ConnectionPool) -> list[asyncpg.Connection]:
    async with asyncio.timeout(10):
        return [await pool.acquire() for _ in range(SIZE)]


async def test_callers_that_time_out_lose_no_connection(pool: ConnectionPool) -> None:
    """Callers that are canceled at every possible moment, among others that use their connection."""
    chance = random.Random(7)
    in_use: set[asyncpg.Connection] = set()

    async def use() -> None:
        async with asyncio.timeout(chance.uniform(0, 0.02)):
            connection = await pool.acquire()
        assert connection not in in_use, "two users at a time"
        in_use.add(connection)
        try:
            assert await connection.fetchval("SELECT 1") == 1
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
        finally:
            in_use.discard(connection)
            if chance.random() < 0.05:
                connection.terminate()
            pool.release(connection)

    results: list[BaseException | None] = []
    for _ in range(20):
        results += await asyncio.gather(*(use() for _ in range(40)), return_exceptions=True)
    assert all(result is None or isinstance(result, TimeoutError) for result in results), results
    assert any(isinstance(result, TimeoutError) for result in results), "no caller timed out"
    assert len(set(await take_all(pool))) == SIZE


async def test_cancel_at_the_moment_of_service_loses_nothing(pool: ConnectionPool) -> None:
    lent = await take_all(pool)
    asking = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    pool.release(lent[0])
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    async with asyncio.timeout(10):
        assert await pool.acquire() is lent[0]


async def test_closed_idle_connection_is_not_handed_out(pool: ConnectionPool) -> None:
    lent = await take_all(pool)
    for connection in lent:
        pool.release(connection)
        connection.terminate()
    assert not any(connection.is_closed() for connection in await take_all(pool))


async def test_callers_are_served_in_order(pool: ConnectionPool) -> None:
    lent, order = await take_all(pool), []

    async def ask(number: int) -> None:
        connection = await pool.acquire()
        order.append(number)
        pool.release(connection)

    asking = [asyncio.create_task(ask(number)) for number in range(6)]
    await asyncio.sleep(0)
    for connection in lent:
        pool.release(connection)
    await asyncio.gather(*asking)
    assert order == sorted(order)


async def test_failed_connect_frees_its_place(stack: Stack) -> None:
    fail = True

    async def connect() -> asyncpg.Connection:
        await asyncio.sleep(0)
        if fail:
            raise OSError
        return await asyncpg.connect(stack.database_url)

    pool = ConnectionPool(connect, size=1)
    first, second = asyncio.create_task(pool.acquire()), asyncio.create_task(pool.acquire())
    with pytest.raises(OSError):
        await first
    fail = False
    async with asyncio.timeout(10):
        assert await (await second).fetchval("SELECT 1") == 1
    pool.close()


async def test_connection_in_a_transaction_is_dropped(pool: ConnectionPool) -> None:
    connection = await pool.acquire()
    await connection.execute("BEGIN")
    pool.release(connection)
    assert connection.is_closed()
    assert connection not in await take_all(pool)


async def test_old_connections_are_replaced(pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await pool.acquire()
    monkeypatch.setattr(module, "LONGEST_LIFE_SECONDS", 0.0)
    pool.release(connection)
    assert connection.is_closed()
    assert len(await take_all(pool)) == SIZE


async def test_close_cuts_connections_in_use(pool: ConnectionPool) -> None:
    connection = await pool.acquire()
    pool.close()
    assert connection.is_closed()
    pool.release(connection)


async def test_connection_opened_during_close_is_closed(stack: Stack) -> None:
    made: list[asyncpg.Connection] = []
    gate = asyncio.Event()

    async def connect() -> asyncpg.Connection:
        made.append(await asyncpg.connect(stack.database_url))
        await gate.wait()
        return made[0]

    pool = ConnectionPool(connect, size=1)
    asking = asyncio.create_task(pool.acquire())
    await until(lambda: made)
    pool.close()
    gate.set()
    with pytest.raises(ConnectionAbortedError):
        await asking
    assert made[0].is_closed()
