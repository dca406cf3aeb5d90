from collections.abc import AsyncIterator

import pytest

from catraca.settings import Settings
from tests.domains.location.town import Town, open_town
from tests.servers import Stack


@pytest.fixture(scope="session")
async def session_town(stack: Stack, settings: Settings) -> AsyncIterator[Town]:
    async with open_town(stack, settings) as town:
        yield town


@pytest.fixture
async def town(session_town: Town) -> Town:
    """The town without drivers."""
    await session_town.clear()
    return session_town
