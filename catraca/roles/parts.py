"""What the roles of one process share: opened once, closed last."""

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from catraca.platform.database import Database, DatabaseLimits
from catraca.platform.redis_client import RedisClient
from catraca.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    settings: Settings
    database: Database
    redis: RedisClient
    # Inherited from a supervisor; without one the API opens its own.
    listener: socket.socket | None = None


@asynccontextmanager
async def open_parts(settings: Settings, *, listener: socket.socket | None = None) -> AsyncGenerator[Parts]:
    """Open everything without waiting for any server: one that is away is reported, not fatal."""
    assert settings.database_url is not None
    database = await Database.open(
        settings.database_url, limits=DatabaseLimits(connections=settings.database_connections)
    )
    redis = RedisClient(settings.redis_url)
    try:
        yield Parts(settings, database, redis, listener)
    finally:
        await redis.close()
        await database.close()
