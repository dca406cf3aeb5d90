from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from catraca.platform.database import Database
from catraca.platform.redis_client import RedisClient, RedisLimits
from catraca.roles.parts import Parts
from tests.domains.rides.desk import Desk
from tests.domains.rides.hint_desk import HintDesk
from tests.servers import Stack
from tests.support.http import served
from tests.support.redis_server import private_redis


@pytest.fixture
def desk(api: httpx.AsyncClient, database: Database) -> Desk:
    return Desk(api, database)


@pytest.fixture
async def hint_desk(stack: Stack, parts: Parts) -> AsyncIterator[HintDesk]:
    """An API with a Redis of its own, which the test can break."""
    async with private_redis(stack) as server:
        # A long timeout: on a busy machine the hint would sometimes be skipped.
        redis = RedisClient(server.url, limits=RedisLimits(answer_seconds=2))
        async with served(replace(parts, redis=redis)) as api, api.client() as client:
            yield HintDesk(client, parts.database, server, redis)
        await redis.close()
