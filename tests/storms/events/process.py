"""One process of the world in `world.py`: chosen parts, and the moment it dies.

`python -m tests.storms.events.process '{"database_url": ..., "parts": ["writer", "relay", "consumers"]}'`
"""

import asyncio
import random
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import msgspec
import uvloop

from catraca.platform.bus import QueueWorker, Transport
from catraca.platform.bus import relay as relay_module
from catraca.platform.bus.postgres import subscription
from catraca.platform.bus.relay import Relay
from catraca.platform.database import Database
from catraca.platform.telemetry import configure_logging
from catraca.roles.runner import Life, all_of
from tests.storms.events import world
from tests.storms.events.windows import (
    Fate,
    FatedPostgresBus,
    relays_commit,
    retries_commit,
    watch,
    writers_commit,
)

WRITERS = 4
# A short lease, so that messages of killed processes come back soon; a small batch, so that windows are
# passed often.
LEASE_SECONDS = 1.0
RELAY_BATCH = 10


class Orders(msgspec.Struct, kw_only=True):
    """The configuration of a process."""

    database_url: str
    parts: tuple[str, ...]
    amqp_url: str | None = None
    # The writer continues until there are this many changes.
    changes: int = 0
    writer_pause_seconds: float = 0.0
    window: str | None = None
    passage: int = 1


class Process:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._fate = Fate(orders.window, orders.passage)
        self._life = Life()
        self._changes_left = 0
        self._databases: list[Database] = []

    async def run(self) -> None:
        """Run until stopped or killed."""
        self._life.handle_signals()
        transport = await self._transport()
        await transport.declare()
        works = [work for part in self._orders.parts for work in await self._works(part, transport)]
        await all_of(self._life.stopping.wait(), *works)
        await transport.close()
        await asyncio.gather(*(database.close() for database in self._databases))

    async def _transport(self) -> Transport:
        if self._orders.amqp_url is not None:
            from tests.storms.events.rabbitmq import FatedRabbitMqBus

            return FatedRabbitMqBus(self._orders.amqp_url, self._fate)
        database = watch(await self._database(), retries_commit(self._fate))
        return FatedPostgresBus(database, world.WORLD, self._fate)

    async def _database(self) -> Database:
        database = await Database.open(self._orders.database_url)
        self._databases.append(database)
        return database

    async def _works(self, part: str, transport: Transport) -> list[Coroutine[Any, Any, None]]:
        """Each part has its own pool, so that its transactions can be recognised."""
        database = await self._database()
        if part == "writer":
            return [self._write(watch(database, writers_commit(self._fate)))]
        if part == "relay":
            return [Relay(watch(database, relays_commit(self._fate)), transport).run(self._life.stopping)]
        handlers = world.world_handlers(lambda: self._fate.pass_by("in_handler"))
        return [
            QueueWorker(
                queue, handlers[queue.name], topology=world.WORLD, transport=transport, database=database
            ).run(self._life.stopping)
            for queue in world.WORLD.queues
        ]

    async def _write(self, database: Database) -> None:
        async with database.connection() as db:
            there = await db.fetchval("SELECT count(*) FROM changes")
        self._changes_left = self._orders.changes - there
        await all_of(*(self._change(database) for _ in range(WRITERS)))

    async def _change(self, database: Database) -> None:
        while self._changes_left > 0 and not self._life.stopping.is_set():
            with suppress(world.Regretted):
                made = await database.run(world.change_parcel)
                self._changes_left -= made
            await asyncio.sleep(self._orders.writer_pause_seconds * random.uniform(0.5, 1.5))


def main() -> None:
    configure_logging("error")
    relay_module.LEASE_SECONDS = subscription.LEASE_SECONDS = LEASE_SECONDS
    relay_module.BATCH = RELAY_BATCH
    subscription.RENEW_SECONDS = LEASE_SECONDS / 3
    orders = msgspec.json.decode(sys.argv[1], type=Orders)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(Process(orders).run())
