"""A private outbox, and a transport that records what is published."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID, uuid4

import asyncpg

from catraca.platform.bus import Message
from catraca.platform.bus.relay import Relay
from catraca.platform.database import Database, DatabaseLimits, Row, outbox
from catraca.platform.event import Event
from tests.servers import Stack, until

# These tests have no deadlines: they fill tables in one statement, and many run at once.
PATIENT = DatabaseLimits(
    connections=20, acquire_seconds=30, connect_seconds=30, statement_seconds=60, lock_seconds=30
)


class SampleEvent(Event, tag="test.told"):
    exchange = "test.events"
    about = "subject_id"

    subject_id: UUID
    word: str = ""


@asynccontextmanager
async def database_of_its_own(stack: Stack, *, connections: int = 20) -> AsyncIterator[Database]:
    """A new migrated database on this stack's server, listening for wake-ups."""
    url = await stack.migrated_database(f"outbox_{uuid4().hex[:12]}")
    database = await Database.open(url, limits=replace(PATIENT, connections=connections))
    try:
        with database.channel.subscribe("whatever") as begun:  # all waiters are woken when it has started
            async with asyncio.timeout(30):
                await begun.wait()
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def another_process(stack: Stack, database: Database) -> AsyncIterator[Database]:
    """The same database, as another process would open it."""
    another = await Database.open(_url(stack, await _name(database)), limits=PATIENT)
    try:
        yield another
    finally:
        await another.close()


@asynccontextmanager
async def away(stack: Stack, database: Database) -> AsyncIterator[None]:
    """Make the database unreachable by renaming it while the block runs."""
    name = await _name(database)
    admin = await asyncpg.connect(stack.database_url)
    try:
        await until(lambda: _renamed(admin, name, f"{name}_away"))
        yield
        await until(lambda: _renamed(admin, f"{name}_away", name))
    finally:
        await admin.close()


async def _renamed(admin: asyncpg.Connection, name: str, new_name: str) -> bool:
    await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    try:
        await admin.execute(f'ALTER DATABASE "{name}" RENAME TO "{new_name}"')
    except asyncpg.ObjectInUseError:
        return False
    return True


async def _name(database: Database) -> str:
    async with database.connection() as db:
        return await db.fetchval("SELECT current_database()")


def _url(stack: Stack, name: str) -> str:
    return stack.database_url.replace("/catraca?", f"/{name}?")


async def empty(database: Database) -> None:
    async with database.connection() as db:
        await db.execute("TRUNCATE outbox, outbox_heads, outbox_sent, inbox, bus_messages")


async def record(database: Database, *events: Event) -> None:
    await database.run(lambda db: outbox.record(db, *events))


async def fill(database: Database, *, aggregates: int, each: int, wait_seconds: float = 0) -> None:
    """Record many events; an event with number 1 can be made to block its successors."""
    async with database.connection() as db:
        await db.execute(
            "INSERT INTO outbox (id, aggregate_id, seq, exchange, routing_key, headers, body, leased_until)"
            " SELECT gen_random_uuid(), aggregate_id, seq, 'test.events', 'test.told',"
            "   json_build_object('aggregate_id', aggregate_id, 'seq', seq),"
            '   \'{"event_type":"test.told"}\','
            "   CASE WHEN seq = 1 THEN clock_timestamp() + make_interval(secs => $3) ELSE '-infinity' END"
            " FROM (SELECT gen_random_uuid() AS aggregate_id FROM generate_series(1, $1::int)) AS a"
            " CROSS JOIN generate_series(1, $2::int) AS seq",
            aggregates,
            each,
            wait_seconds,
        )


async def waiting(database: Database) -> list[Row]:
    """Unsent events by aggregate and number."""
    async with database.connection() as db:
        return list(await db.fetch("SELECT * FROM outbox ORDER BY aggregate_id, seq"))


async def is_all_sent(database: Database) -> bool:
    return not await waiting(database)


async def sent(database: Database) -> list[tuple[UUID, int]]:
    async with database.connection() as db:
        rows = await db.fetch("SELECT aggregate_id, seq FROM outbox_sent ORDER BY aggregate_id, seq")
    return [(row["aggregate_id"], row["seq"]) for row in rows]


async def a_backend_waits_for_a_lock(database: Database) -> bool:
    async with database.connection() as db:
        return await db.fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock')"
        )


class Recorder:
    """A transport that records all messages in their order, and accepts them unless configured otherwise."""

    def __init__(
        self,
        taken: list[Message] | None = None,
        *,
        refuse: Callable[[Message], Exception | None] = lambda _: None,
        before: Callable[[Message], Awaitable[None]] | None = None,
    ) -> None:
        self.taken = [] if taken is None else taken
        self.refuse = refuse
        self.before = before

    async def publish(self, messages: Sequence[Message]) -> list[Exception | None]:
        outcomes: list[Exception | None] = []
        failed: dict[UUID | None, Exception] = {}
        for message in messages:
            aggregate_id = message.headers.aggregate_id
            if self.before is not None:
                await self.before(message)
            outcome = failed.get(aggregate_id) or self.refuse(message)
            if outcome is None:
                self.taken.append(message)
            else:
                failed[aggregate_id] = outcome
            outcomes.append(outcome)
        return outcomes


def numbers(taken: Sequence[Message]) -> dict[UUID, list[int]]:
    """The numbers of each aggregate, in the order in which they were first published."""
    order: dict[UUID, list[int]] = {}
    for message in taken:
        assert message.headers.aggregate_id is not None
        seen = order.setdefault(message.headers.aggregate_id, [])
        if message.headers.seq not in seen:
            seen.append(message.headers.seq)
    return order


@asynccontextmanager
async def running(*relays: Relay) -> AsyncIterator[None]:
    stopping = asyncio.Event()
    tasks = [asyncio.create_task(relay.run(stopping)) for relay in relays]
    try:
        yield
    finally:
        stopping.set()
        async with asyncio.timeout(30):
            await asyncio.gather(*tasks)
