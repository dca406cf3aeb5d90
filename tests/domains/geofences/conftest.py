from collections.abc import AsyncIterator

import pytest

from catraca.settings import Settings
from tests.domains.geofences.village import Village
from tests.domains.location.town import Town, open_town
from tests.servers import Stack


@pytest.fixture(scope="session")
async def village_town(stack: Stack, settings: Settings) -> AsyncIterator[Town]:
    async with open_town(stack, settings) as town:
        yield town


@pytest.fixture
async def village(village_town: Town) -> Village:
    """A village without drivers."""
    await village_town.clear()
    return await Village.create(village_town)
