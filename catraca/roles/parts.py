"""What the roles of one process share: opened once, closed last."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from catraca.platform.database import Database, DatabaseLimits
from catraca.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    settings: Settings
    database: Database


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncGenerator[Parts]:
    """Open everything without waiting for any server: one that is away is reported, not fatal."""
    assert settings.database_url is not None
    database = await Database.open(
        settings.database_url, limits=DatabaseLimits(connections=settings.database_connections)
    )
    try:
        yield Parts(settings, database)
    finally:
        await database.close()
