"""A Redis that a test may stop, freeze or empty, and a client of it."""

from collections.abc import AsyncIterator

import pytest

from catraca.platform.redis_client import RedisClient
from tests.servers import Stack
from tests.support.redis_server import PATIENT, PrivateRedis, private_redis


@pytest.fixture
async def server(stack: Stack) -> AsyncIterator[PrivateRedis]:
    async with private_redis(stack) as server:
        yield server


@pytest.fixture
async def redis(server: PrivateRedis) -> AsyncIterator[RedisClient]:
    client = RedisClient(server.url, limits=PATIENT)
    yield client
    await client.close()
