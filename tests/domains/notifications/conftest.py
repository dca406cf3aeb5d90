from collections.abc import AsyncIterator

import pytest

from catraca.roles.parts import Parts
from tests.domains.notifications.devices import Room, room_of
from tests.support.http import served


@pytest.fixture(scope="session")
async def room(parts: Parts) -> AsyncIterator[Room]:
    async with served(parts) as here, room_of(parts, here) as room:
        yield room
