from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from catraca.platform.database import Database
from catraca.platform.redis_client import RedisClient
from catraca.roles.parts import Parts
from tests.domains.rides.desk import Desk
from tests.domains.rides.redis_desk import RedisDesk
from tests.servers import Stack
from tests.support.http import served
from tests.support.redis_server import private_redis


@pytest.fixture
def desk(api: httpx.AsyncClient, database: Database) -> Desk:
    return Desk(api, database)


@pytest.fixture
async def redis_desk(stack: Stack, parts: Parts) -> AsyncIterator[RedisDesk]:
    """An API with a Redis of its own, which the test can break."""
    async with private_redis(stack) as server:
        redis = RedisClient(server.url)
        async with served(replace(parts, redis=redis)) as api, api.client() as client:
            yield RedisDesk(client, parts.database, server)
        await redis.close()
