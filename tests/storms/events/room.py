"""The database, bus and processes of `world.py`."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import asyncpg
import msgspec

from catraca.platform.database.migrations import migrate
from tests.servers import until
from tests.storms.checks import failed_checks
from tests.storms.events import world
from tests.storms.events.checks import CHECKS, is_quiet
from tests.storms.events.process import Orders
from tests.storms.processes import Process, stop
from tests.support import forked

# Beyond this a part is stuck; a round takes seconds.
QUIET_SECONDS = 90
# So many consumers may stop with returned repeats before the queues must be empty.
DRAINS = 5
EMPTIED = (
    "changes, applied, routes, outbox, outbox_heads, outbox_sent, inbox, bus_messages, bus_delayed,"
    " bus_active, dead_letters"
)


@dataclass
class EventWorld:
    database_url: str
    # None: the PostgreSQL bus.
    amqp_url: str | None = None
    processes: list[Process] = field(default_factory=list)
    parts_of: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def start(self, *parts: str, **orders: Any) -> Process:
        """A process with these parts: writer, relay, consumers."""
        given = Orders(database_url=self.database_url, amqp_url=self.amqp_url, parts=parts, **orders)
        process = forked.start(
            "tests.storms.events.process:main", msgspec.json.encode(given).decode(), environment=os.environ
        )
        self.processes.append(process)
        self.parts_of[process.pid] = parts
        return process

    async def changes(self) -> int:
        async with self.connection() as db:
            return await db.fetchval("SELECT count(*) FROM changes")

    async def finish(self, *, changes: int) -> None:
        """Wait until `changes` changes were made and their events applied; then stop and run every check."""
        async with self.connection() as db:

            async def all_arrived() -> bool:
                made = await db.fetchval("SELECT count(*) FROM changes")
                return made >= changes and await is_quiet(db)

            try:
                await until(all_arrived, seconds=QUIET_SECONDS)
            except TimeoutError:
                failed = await failed_checks(db, CHECKS)
                raise AssertionError("\n".join(["events are still pending", *failed])) from None
            await stop(*(process for process in self.processes if process.poll() is None))
            await self._drain_broker()
            broken = await failed_checks(db, CHECKS)
        assert not broken, "\n".join(broken)

    async def _drain_broker(self) -> None:
        """Processes that stop return unhandled messages, by now only repeats: let a consumer take them."""
        if self.amqp_url is None:
            return
        from tests.storms.events.rabbitmq import are_queues_empty

        for _ in range(DRAINS):
            if await are_queues_empty(self.amqp_url):
                return
            taker = self.start("consumers")
            await until(partial(are_queues_empty, self.amqp_url), seconds=QUIET_SECONDS)
            await stop(taker)
        raise AssertionError("queues do not become empty")

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        connection = await asyncpg.connect(self.database_url)
        try:
            yield connection
        finally:
            await connection.close()


@asynccontextmanager
async def event_world(database_url: str, amqp_url: str | None = None) -> AsyncIterator[EventWorld]:
    """An empty world; whatever still runs there at the end is ended."""
    room = EventWorld(database_url, amqp_url)
    async with room.connection() as db:
        if not await db.fetchval("SELECT to_regclass('applied') IS NOT NULL"):
            await migrate(database_url)
            await db.execute(world.TABLES)
        await db.execute(f"TRUNCATE {EMPTIED}")
        await db.executemany("INSERT INTO routes VALUES ($1, $2)", world.ROUTES)
    if amqp_url is not None:
        from tests.storms.events.rabbitmq import empty_queues

        await empty_queues(amqp_url)
    try:
        yield room
    finally:
        for process in room.processes:
            process.kill()
            process.wait()
