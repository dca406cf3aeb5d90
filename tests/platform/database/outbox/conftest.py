"""A database of the outbox tests only, emptied before each test."""

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
