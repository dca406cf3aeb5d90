"""A desk on servers of its own, which may be killed and frozen."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from catraca.platform.database.migrations import migrate
from catraca.roles.parts import open_parts
from tests.conftest import settings_for
from tests.domains.onboarding.desk import QUICK, Desk
from tests.platform.bus.breakable import Breakable, Broker, Embedded, debian, started
from tests.servers import Stack
from tests.support.http import served


@dataclass
class Place:
    desk: Desk
    postgres: Breakable
    # What carries the sign-ups: RabbitMQ, or PostgreSQL itself.
    bus: Breakable


@asynccontextmanager
async def place_on(stack: str, folder: Path) -> AsyncIterator[Place]:
    """The embedded stack with the PostgreSQL bus, or the servers with RabbitMQ."""
    async with AsyncExitStack() as open_until_then:
        enter = open_until_then.enter_async_context
        postgres: Breakable = await enter(
            started(Embedded(folder)) if stack == "embedded" else debian(folder)  # type: ignore[arg-type]
        )
        broker = await enter(started(Broker(folder))) if stack == "servers" else None
        await migrate(postgres.url)
        # Without a Redis: limits are then counted here.
        nowhere = Stack(stack, folder, postgres.url, f"unix://{folder}/no.sock")
        settings = settings_for(nowhere).changed(**QUICK, amqp_url=broker and broker.url)
        parts = await enter(open_parts(settings))
        here = await enter(served(parts))
        client = await enter(here.client())
        yield Place(Desk(parts, client), postgres, broker or postgres)
