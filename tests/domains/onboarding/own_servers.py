"""A harness with its own servers, which tests can kill and freeze."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from catraca.platform.database.migrations import migrate
from catraca.roles.parts import open_parts
from tests.conftest import settings_for
from tests.domains.onboarding.harness import QUICK, SignUpHarness
from tests.platform.bus.breakable import Breakable, Broker, Embedded, debian, started
from tests.servers import Stack
from tests.support.http import served


@dataclass
class OwnServers:
    harness: SignUpHarness
    postgres: Breakable
    # RabbitMQ, or PostgreSQL itself.
    bus: Breakable


@asynccontextmanager
async def own_servers_on(stack: str, folder: Path) -> AsyncIterator[OwnServers]:
    """The embedded stack with the PostgreSQL bus, or the servers with RabbitMQ."""
    async with AsyncExitStack() as open_until_then:
        enter = open_until_then.enter_async_context
        postgres: Breakable = await enter(
            started(Embedded(folder)) if stack == "embedded" else debian(folder)  # type: ignore[arg-type]
        )
        broker = await enter(started(Broker(folder))) if stack == "servers" else None
        await migrate(postgres.url)
        # Without Redis: rate limits are counted in this process.
        nowhere = Stack(stack, folder, postgres.url, f"unix://{folder}/no.sock")
        settings = settings_for(nowhere).changed(**QUICK, amqp_url=broker and broker.url)
        parts = await enter(open_parts(settings))
        here = await enter(served(parts))
        client = await enter(here.client())
        yield OwnServers(SignUpHarness(parts, client), postgres, broker or postgres)
