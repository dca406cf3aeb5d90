"""A database without counts, and an API on it."""

from collections.abc import AsyncIterator

import httpx
import pytest

from catraca.platform.database import Database
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts


@pytest.fixture(scope="session")
async def own(stack: Stack, settings: Settings) -> AsyncIterator[Parts]:
    async with own_parts(stack, settings, database_connections=20) as parts:
        yield parts


@pytest.fixture
async def figures(own: Parts) -> Database:
    async with own.database.connection() as db:
        await db.execute("TRUNCATE demand, match_windows, demand_alerts, outbox, outbox_heads, inbox")
    return own.database


@pytest.fixture(scope="session")
async def figures_api(own: Parts) -> AsyncIterator[httpx.AsyncClient]:
    async with served(own) as serving, serving.client() as client:
        yield client
