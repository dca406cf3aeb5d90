from collections.abc import AsyncIterator

import pytest

from catraca.platform.redis_client import RedisClient
from tests.domains.location.conftest import session_town, town
from tests.domains.location.town import Town
from tests.domains.matching.harness import MatchingHarness
from tests.support.redis_server import PATIENT

__all__ = ["session_town", "town"]


@pytest.fixture
async def harness(town: Town) -> AsyncIterator[MatchingHarness]:
    """A harness without earlier searches and timers: only the test takes steps."""
    async with town.parts.database.connection() as db:
        await db.execute("TRUNCATE matchings; DELETE FROM timers")
    # With long limits: on a busy machine Redis commands would time out and locks be skipped.
    redis = RedisClient(town.redis.url, limits=PATIENT)
    yield MatchingHarness(town, redis)
    await redis.close()
