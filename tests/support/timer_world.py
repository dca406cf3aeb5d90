"""Timer handlers with a visible effect, a timekeeper to run them, and one in a process to kill or stop."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from uuid import UUID, uuid4

import uvloop

from catraca.platform.database import Database, DatabaseLimits, Db, timers
from catraca.platform.database.timer_runner import OUTCOMES, TimerRunner
from catraca.platform.database.timers import TimerHandlers, TimerKind
from tests.servers import Stack, until
from tests.support import forked
from tests.support.forked import ForkedProcess

NOW = timedelta(0)
SHORTLY = timedelta(milliseconds=200)
LATER = timedelta(hours=1)


def new_kind() -> TimerKind:
    return TimerKind(f"test.{uuid4().hex}")


async def create_tables(database: Database) -> None:
    async with database.transaction() as db:
        await db.execute("SELECT pg_advisory_xact_lock(1)")
        await db.execute(
            "CREATE TABLE IF NOT EXISTS test_firings (kind text NOT NULL, subject_id uuid NOT NULL,"
            " fired_at timestamptz NOT NULL DEFAULT clock_timestamp())"
        )


@asynccontextmanager
async def database_apart(stack: Stack) -> AsyncIterator[Database]:
    """A database of its own, to fill or to take away."""
    url = await stack.migrated_database(f"timers_{uuid4().hex}")
    database = await Database.open(url, limits=DatabaseLimits(acquire_seconds=0.5, statement_seconds=20))
    await create_tables(database)
    yield database
    await database.close()


async def record_firing(db: Db, kind: TimerKind, subject_id: UUID) -> None:
    """Nothing forbids a second row, so one row each proves that there was one firing each."""
    await db.execute("INSERT INTO test_firings (kind, subject_id) VALUES ($1, $2)", kind, subject_id)


async def firings(database: Database, kind: TimerKind) -> Counter[UUID]:
    async with database.connection() as db:
        rows = await db.fetch("SELECT subject_id FROM test_firings WHERE kind = $1", kind)
    return Counter(row["subject_id"] for row in rows)


async def fired(database: Database, kind: TimerKind, *subjects: UUID) -> None:
    """Wait until each of these has fired."""

    async def have_fired() -> bool:
        return set(subjects) <= (await firings(database, kind)).keys()

    await until(have_fired)


def outcomes(kind: TimerKind, outcome: str) -> float:
    return OUTCOMES.labels(kind, outcome)._value.get()


async def set_for(database: Database, kind: TimerKind, *subjects: UUID, due_in: timedelta = NOW) -> None:
    """Set a timer in a transaction of its own."""
    async with database.transaction() as db:
        await timers.set_timer(db, kind, *subjects, due_in=due_in)


async def waiting_timers(database: Database, kind: TimerKind) -> dict[UUID, dict]:
    async with database.connection() as db:
        rows = await db.fetch(
            "SELECT *, due_at > clock_timestamp() AS ahead FROM timers WHERE kind = $1", kind
        )
    return {row["subject_id"]: dict(row) for row in rows}


def recording(*kinds: TimerKind) -> TimerHandlers:
    """Handlers that leave a row for each firing."""
    fires = TimerHandlers()
    for kind in kinds:

        @fires(kind)
        async def fire(db: Db, subject_id: UUID, kind: TimerKind = kind) -> None:
            await record_firing(db, kind, subject_id)

    return fires


class Halfway:
    """A handler that leaves its row and then waits to be let on."""

    def __init__(self, kind: TimerKind) -> None:
        self.fires = TimerHandlers()
        self.entered = asyncio.Event()
        self.let_on = asyncio.Event()

        @self.fires(kind)
        async def fire(db: Db, subject_id: UUID) -> None:
            await record_firing(db, kind, subject_id)
            self.entered.set()
            await self.let_on.wait()
            await db.execute("SELECT 1")


@asynccontextmanager
async def keeping(database: Database, *handlers: TimerHandlers) -> AsyncIterator[asyncio.Event]:
    """A timekeeper of this process until the block ends, or until the event it gives is set."""
    stopping = asyncio.Event()
    running = asyncio.create_task(TimerRunner(database, handlers).run(stopping))
    try:
        yield stopping
    finally:
        stopping.set()
        await asyncio.wait_for(running, 30)


@asynccontextmanager
async def closed_gate(database: Database, kind: TimerKind) -> AsyncIterator[None]:
    """Within the block, handlers of a timekeeper process leave their row and then wait."""
    async with database.transaction() as db:
        await db.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", kind)
        yield


async def waiting_at_gate(database: Database) -> int:
    async with database.connection() as db:
        return await db.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")


def start_timekeeper(url: str, kind: TimerKind, *, lease_seconds: float) -> ForkedProcess:
    arguments = (url, kind, str(lease_seconds))
    return forked.start("tests.support.timer_world:main", *arguments, environment=os.environ)


async def keep(url: str, kind: TimerKind, lease_seconds: float) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    timers.LEASE_SECONDS = lease_seconds
    fires = TimerHandlers()

    @fires(kind)
    async def fire(db: Db, subject_id: UUID) -> None:
        await record_firing(db, kind, subject_id)
        await db.execute("SET LOCAL lock_timeout = 0")
        await db.execute("SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 0))", kind)

    database = await Database.open(url)
    await TimerRunner(database, [fires]).run(stopping)
    await database.close()


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(keep(sys.argv[1], TimerKind(sys.argv[2]), float(sys.argv[3])))
