"""Servers that a storm may break, with empty databases and queues on them."""

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import aio_pika
import asyncpg

from catraca.events import TOPOLOGY
from catraca.platform.bus import Transport
from catraca.platform.bus.postgres import PostgresBus
from catraca.platform.bus.rabbitmq import RabbitMqBus
from catraca.platform.database import Database
from tests.platform.bus.breakable import Embedded, Postgres, debian, started
from tests.servers import Stack, private_folder
from tests.storms.processes import Fleet, fleet_at
from tests.support.redis_server import PrivateRedis, redis_program


class KillableRedis(PrivateRedis):
    def kill(self) -> None:
        """Kill it with SIGKILL; `start` brings it back, empty."""
        assert self._process
        self._process.kill()
        self._process.wait()
        self._process = None


@dataclass(frozen=True, slots=True)
class StormServers:
    """PostgreSQL and Redis of one storm. Without a broker, PostgreSQL is the bus too."""

    folder: Path
    postgres: Postgres
    redis: KillableRedis
    amqp_url: str | None

    @asynccontextmanager
    async def processes(
        self, lineup: Sequence[tuple[str, ...]], settings: Mapping[str, str]
    ) -> AsyncIterator[tuple[Fleet, Transport]]:
        """Start these processes on an empty database and empty queues; also yields the bus to look at."""
        url = await database_beside(self.postgres.url, f"storm_{uuid4().hex}")
        if self.amqp_url is not None:
            await empty_queues(self.amqp_url)
        async with fleet_at(
            self.folder, url, self.redis.url, self.amqp_url, lineup=lineup, settings=settings
        ) as fleet:
            bus = bus_of(fleet.database, self.amqp_url)
            try:
                yield fleet, bus
            finally:
                await bus.close()


@asynccontextmanager
async def storm_servers(stack_name: str, amqp_url: str | None) -> AsyncIterator[StormServers]:
    """Start PostgreSQL and Redis of this stack for one storm."""
    folder = private_folder()
    redis = KillableRedis(redis_program(Stack(stack_name, folder, "", "")), folder)
    async with AsyncExitStack() as ending:
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        server = started(Embedded(folder)) if stack_name == "embedded" else debian(folder)
        postgres = await ending.enter_async_context(server)
        assert isinstance(postgres, Postgres)
        ending.push_async_callback(redis.stop)
        await redis.start()
        yield StormServers(folder, postgres, redis, amqp_url)


async def database_beside(database_url: str, name: str) -> str:
    """Create another database on the same server if it does not exist; return its URL."""
    connection = await asyncpg.connect(database_url)
    try:
        with suppress(asyncpg.DuplicateDatabaseError):
            await connection.execute(f'CREATE DATABASE "{name}"')
    finally:
        await connection.close()
    return database_url.replace("/catraca?", f"/{name}?")


def bus_of(database: Database, amqp_url: str | None) -> Transport:
    return PostgresBus(database, TOPOLOGY) if amqp_url is None else RabbitMqBus(amqp_url, TOPOLOGY)


async def empty_queues(amqp_url: str) -> None:
    """Declare all queues and purge them: a failed round may have left messages."""
    bus = RabbitMqBus(amqp_url, TOPOLOGY)
    try:
        await bus.declare()
        names = [*await bus.depths(), *await bus.retrying()]
    finally:
        await bus.close()
    async with await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        for name in names:
            await (await channel.get_queue(name)).purge()


async def messages_left(bus: Transport) -> list[str]:
    """The queues that are not empty, with their depths; messages that a consumer holds are not counted."""
    waiting = [*(await bus.depths()).items(), *(await bus.retrying()).items()]
    return [f"{depth} messages left in {name}" for name, depth in waiting if depth]
