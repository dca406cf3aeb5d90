"""A database where nobody else records or sends events; each test finds it empty."""

from collections.abc import AsyncIterator

import pytest

from catraca.platform.database import Database
from tests.servers import Stack
from tests.support.outboxes import database_of_its_own, empty


@pytest.fixture(scope="session")
async def its_own(stack: Stack) -> AsyncIterator[Database]:
    async with database_of_its_own(stack) as database:
        yield database


@pytest.fixture
async def database(its_own: Database) -> Database:
    await empty(its_own)
    return its_own
