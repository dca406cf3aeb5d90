from collections.abc import AsyncIterator

import pytest

from catraca.roles.parts import Parts
from tests.domains.notifications.devices import LiveServer, open_live_server
from tests.support.http import served


@pytest.fixture(scope="session")
async def live_server(parts: Parts) -> AsyncIterator[LiveServer]:
    async with served(parts) as here, open_live_server(parts, here) as live_server:
        yield live_server
