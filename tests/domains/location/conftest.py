from collections.abc import AsyncIterator

import pytest

from catraca.settings import Settings
from tests.domains.location.town import Town, a_town
from tests.servers import Stack


@pytest.fixture(scope="session")
async def whole_town(stack: Stack, settings: Settings) -> AsyncIterator[Town]:
    async with a_town(stack, settings) as town:
        yield town


@pytest.fixture
async def town(whole_town: Town) -> Town:
    """Nobody is at work, and the map is whole."""
    await whole_town.clear()
    return whole_town
