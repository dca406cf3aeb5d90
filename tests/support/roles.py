"""Roles run in this process, on a separate database."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import uuid4

from catraca.roles import ROLES
from catraca.roles.parts import Parts, open_parts
from catraca.roles.runner import Life, run_roles
from catraca.settings import Settings
from tests.servers import Stack


@asynccontextmanager
async def own_parts(stack: Stack, settings: Settings, **changes: object) -> AsyncIterator[Parts]:
    """Parts on a migrated database that no other test uses."""
    url = await stack.migrated_database(f"own-{uuid4().hex[:8]}")
    async with open_parts(settings.changed(database_url=url, **changes)) as parts:
        yield parts


@asynccontextmanager
async def working(parts: Parts, roles: Sequence[str]) -> AsyncIterator[None]:
    """Run these roles until the block ends; they then drain."""
    life = Life()
    running = asyncio.create_task(run_roles([ROLES[name](parts) for name in roles], life))
    try:
        yield
    finally:
        life.stopping.set()
        await running
