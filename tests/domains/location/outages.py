"""Ways in which Redis can be away from a town, each until the block ends."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.domains.location.town import Town
from tests.servers import until


@asynccontextmanager
async def frozen(town: Town) -> AsyncIterator[None]:
    town.redis.freeze()
    try:
        yield
    finally:
        town.redis.thaw()
        await until(town.parts.redis.is_up)


@asynccontextmanager
async def stopped(town: Town) -> AsyncIterator[None]:
    await town.redis.stop()
    try:
        yield
    finally:
        await town.redis.start()
        await until(town.parts.redis.is_up)


@asynccontextmanager
async def flushed(town: Town) -> AsyncIterator[None]:
    await town.redis.command("FLUSHALL")
    yield
