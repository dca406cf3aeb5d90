from collections.abc import AsyncIterator

import pytest

from catraca.platform.redis_client import RedisClient
from tests.domains.location.conftest import town, whole_town
from tests.domains.location.town import Town
from tests.domains.matching.office import Office
from tests.support.redis_server import PATIENT

__all__ = ["town", "whole_town"]


@pytest.fixture
async def office(town: Town) -> AsyncIterator[Office]:
    """Nobody is looked for but by the test itself."""
    async with town.parts.database.connection() as db:
        await db.execute("TRUNCATE matchings; DELETE FROM timers")
    # Patient: on a busy machine a lock would else be left out now and then, as it may be.
    redis = RedisClient(town.redis.url, limits=PATIENT)
    yield Office(town, redis)
    await redis.close()
