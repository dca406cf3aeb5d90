from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.client.proxy import Proxy, proxy_to
from tests.conftest import free_port, listening
from tests.servers import Stack
from tests.support.roles import own_parts, working


@pytest.fixture
async def proxy(api_url: str) -> AsyncIterator[Proxy]:
    """A proxy in front of the API that can lose data."""
    async with proxy_to(int(api_url.rpartition(":")[2])) as found:
        yield found


@pytest.fixture
async def town(stack: Stack, settings: Settings) -> AsyncIterator[Parts]:
    """A whole Catraca in this process, without users, with a high speed limit and a short offer timeout."""
    limits = {"ping_max_speed": 1000.0, "driver_response_timeout": timedelta(seconds=4)}
    async with (
        own_parts(stack, settings, port=free_port(), **limits) as parts,
        listening(parts),
        working(parts, ["relay", "dispatcher", "notifier"]),
    ):
        yield parts
