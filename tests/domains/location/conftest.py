from collections.abc import AsyncIterator
from functools import partial

import pytest

from catraca.platform.redis_client import RedisAway
from catraca.settings import Settings
from tests.domains.location.town import Town
from tests.domains.rides.desk import Desk
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.redis_server import private_redis
from tests.support.working import own_parts


@pytest.fixture(scope="session")
async def whole_town(stack: Stack, settings: Settings) -> AsyncIterator[Town]:
    async with (
        private_redis(stack) as redis,
        own_parts(stack, settings, redis_url=redis.url) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        yield Town(parts, client, redis, Desk(client, parts.database))


@pytest.fixture
async def town(whole_town: Town) -> Town:
    """Nobody is at work, and the map is whole."""
    async with whole_town.parts.database.connection() as db:
        await db.execute("TRUNCATE driver_presence")
    await whole_town.redis.command("FLUSHALL")
    await until(partial(_is_filled, whole_town))
    return whole_town


async def _is_filled(town: Town) -> bool:
    """A busy machine may take longer to answer than a process waits for Redis."""
    try:
        await town.keeper().fill_map()
    except RedisAway:
        return False
    return True
