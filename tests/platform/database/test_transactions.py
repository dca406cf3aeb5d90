"""Transactions end, waits are limited, and a canceled request leaves no locks and no changes."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import uuid4

import asyncpg
import pytest

from catraca.platform.database import Database, DatabaseLimits, Db, TransactionAborted
from catraca.platform.database import transactions as module
from catraca.platform.errors import Busy, DatabaseUnavailable, OutcomeUnknown
from tests.servers import Stack, freeze, until

# Short limits, but time to connect on a busy machine.
BRISK = DatabaseLimits(connections=2, acquire_seconds=10, statement_seconds=1, lock_seconds=0.3)


@pytest.fixture
async def brisk(stack: Stack) -> AsyncIterator[Database]:
    """A small pool with short limits, and a table of its own."""
    database = await Database.open(stack.database_url, limits=BRISK, application_name="brisk")
    async with database.transaction() as db:
        await db.execute(
            "CREATE TABLE IF NOT EXISTS test_rows (id int PRIMARY KEY, n int NOT NULL DEFAULT 0)"
        )
        await db.execute("TRUNCATE test_rows")
        await db.execute("INSERT INTO test_rows VALUES (1), (2)")
    yield database
    await database.close()


async def rows(database: Database) -> dict[int, int]:
    async with database.connection() as db:
        return {row["id"]: row["n"] for row in await db.fetch("SELECT id, n FROM test_rows")}


async def test_error_rolls_back_the_whole_transaction(brisk: Database) -> None:
    with pytest.raises(KeyError):
        async with brisk.transaction() as db:
            await db.execute("UPDATE test_rows SET n = 9")
            raise KeyError
    assert await rows(brisk) == {1: 0, 2: 0}


async def test_caught_database_error_is_not_a_commit(brisk: Database) -> None:
    with pytest.raises(TransactionAborted):
        async with brisk.transaction() as db:
            await db.execute("UPDATE test_rows SET n = 9")
            with suppress(asyncpg.UniqueViolationError):
                await db.execute("INSERT INTO test_rows VALUES (1)")
    assert await rows(brisk) == {1: 0, 2: 0}


async def test_wait_for_a_connection_is_limited(stack: Stack) -> None:
    async with opened(stack.database_url, DatabaseLimits(connections=1, acquire_seconds=0.3)) as database:
        await until(database.is_up)
        async with database.connection():
            with pytest.raises(Busy) as refused:
                async with database.connection():
                    pass
        assert refused.value.retry_after_seconds
        assert await database.is_up()


async def test_wait_for_a_row_lock_is_limited(brisk: Database) -> None:
    async with brisk.transaction() as holder:
        await holder.execute("UPDATE test_rows SET n = 1 WHERE id = 1")
        with pytest.raises(Busy):
            async with brisk.transaction() as db:
                await db.execute("UPDATE test_rows SET n = 2 WHERE id = 1")
    assert await rows(brisk) == {1: 1, 2: 0}


async def test_slow_statement_is_canceled(brisk: Database) -> None:
    with pytest.raises(Busy):
        async with brisk.connection() as db:
            await db.execute("SELECT pg_sleep(30)")


async def test_cancel_releases_the_connection_and_its_locks(brisk: Database) -> None:
    """More cancellations than connections: a leaked connection or lock would block the last ones."""
    for _ in range(6):
        holding = asyncio.Event()

        async def hold(holding: asyncio.Event = holding) -> None:
            async with brisk.transaction() as db:
                await db.execute("UPDATE test_rows SET n = 5 WHERE id = 1")
                holding.set()
                await db.execute("SELECT pg_sleep(30)")

        task = asyncio.create_task(hold())
        await holding.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: _can_lock(brisk))
    assert await rows(brisk) == {1: 0, 2: 0}


async def _can_lock(database: Database) -> bool:
    try:
        async with database.transaction() as db:
            await db.execute("SELECT FROM test_rows WHERE id = 1 FOR UPDATE NOWAIT")
    except Busy:
        return False
    return True


async def test_cancel_during_the_wait_loses_no_connection(brisk: Database) -> None:
    async with brisk.connection(), brisk.connection():
        waiting = [asyncio.create_task(rows(brisk)) for _ in range(8)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        assert all(
            isinstance(r, BaseException) for r in await asyncio.gather(*waiting, return_exceptions=True)
        )
    async with brisk.connection(), brisk.connection():
        pass


async def test_deadlock_is_retried_and_both_changes_commit(brisk: Database) -> None:
    both_hold_one = asyncio.Barrier(2)
    runs = 0

    async def swap(first: int, second: int, *, notices_after: str) -> None:
        met = False

        async def work(db: Db) -> None:
            nonlocal runs, met
            runs += 1
            await db.execute(f"SET LOCAL deadlock_timeout = '{notices_after}'")
            await db.execute("UPDATE test_rows SET n = n + 1 WHERE id = $1", first)
            if not met:
                met = True
                await both_hold_one.wait()
            await db.execute("UPDATE test_rows SET n = n + 1 WHERE id = $1", second)

        await brisk.run(work)

    # Different timeouts: else both may notice the deadlock and both fail.
    await asyncio.gather(swap(1, 2, notices_after="50ms"), swap(2, 1, notices_after="1min"))
    assert runs == 3
    assert await rows(brisk) == {1: 2, 2: 2}


async def test_repeated_serialization_failures_are_busy(brisk: Database) -> None:
    runs = 0

    async def work(db: Db) -> None:
        nonlocal runs
        runs += 1
        raise asyncpg.SerializationError("always")

    with pytest.raises(Busy):
        await brisk.run(work)
    assert runs == len(module.RETRY_PAUSES_SECONDS) + 1


async def test_lost_connection_is_unavailable_and_the_next_call_works(brisk: Database) -> None:
    with pytest.raises(DatabaseUnavailable):
        async with brisk.transaction() as db:
            await db.execute("UPDATE test_rows SET n = 7")
            await _terminate(brisk, await db.fetchval("SELECT pg_backend_pid()"))
            await db.execute("SELECT 1")
    assert await rows(brisk) == {1: 0, 2: 0}


async def test_connection_lost_before_commit_is_outcome_unknown(brisk: Database) -> None:
    with pytest.raises(OutcomeUnknown):
        async with brisk.transaction() as db:
            await db.execute("UPDATE test_rows SET n = 7")
            await _terminate(brisk, await db.fetchval("SELECT pg_backend_pid()"))


async def _terminate(database: Database, pid: int) -> None:
    async with database.connection() as other:
        await other.execute("SELECT pg_terminate_backend($1, 5000)", pid)


async def test_server_that_is_down_is_unavailable_at_once(tmp_path) -> None:
    database = await Database.open(f"postgresql://catraca@/catraca?host={tmp_path}")
    with pytest.raises(DatabaseUnavailable):
        async with database.connection():
            pass
    assert not await database.is_up()
    await database.close()


@pytest.mark.parametrize("kind", ["connection", "transaction"])
async def test_wait_for_a_frozen_server_is_limited(brisk: Database, kind: str) -> None:
    """The server's own timeout does not work while it is frozen; ours ends the wait."""
    frozen = 0

    async def ask_frozen() -> None:
        nonlocal frozen
        async with getattr(brisk, kind)() as db:
            frozen = await db.fetchval("SELECT pg_backend_pid()")
            freeze(frozen)
            await db.execute("UPDATE test_rows SET n = 3")

    try:
        with pytest.raises(Busy):
            await asyncio.wait_for(ask_frozen(), 5)
        assert await rows(brisk) == {1: 0, 2: 0}
    finally:
        os.kill(frozen, signal.SIGCONT)
    await until(lambda: _can_lock(brisk))


async def test_sessions_have_the_limits(brisk: Database) -> None:
    async with brisk.connection() as db:
        shown = {
            name: await db.fetchval("SELECT current_setting($1)", name)
            for name in (
                "statement_timeout",
                "lock_timeout",
                "idle_in_transaction_session_timeout",
                "timezone",
            )
        }
    assert shown == {
        "statement_timeout": "1s",
        "lock_timeout": "300ms",
        "idle_in_transaction_session_timeout": "10s",
        "timezone": "UTC",
    }


async def test_reused_connection_needs_no_reset_statement(brisk: Database, stack: Stack) -> None:
    """The last statement of the session is the caller's own, not a reset."""
    async with brisk.connection() as db:
        pid = await db.fetchval("SELECT pg_backend_pid()")
        await db.execute("SELECT 'mine'")
    watcher = await asyncpg.connect(stack.database_url)
    try:
        assert (
            await watcher.fetchval("SELECT query FROM pg_stat_activity WHERE pid = $1", pid)
            == "SELECT 'mine'"
        )
    finally:
        await watcher.close()


async def test_long_transaction_is_counted(brisk: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONG_TRANSACTION_SECONDS", 0.0)
    before = module.LONG_TRANSACTIONS._value.get()
    async with brisk.transaction():
        pass
    assert module.LONG_TRANSACTIONS._value.get() == before + 1


async def test_roles_use_indexes_even_on_empty_tables(
    database: Database,
) -> None:
    """A plan made for an empty queue is kept when it is full, so it must not read the whole table."""
    async with database.connection() as db:
        assert [await db.fetchval(f"SHOW {name}") for name in ("enable_seqscan", "jit")] == ["off", "off"]
        plan = await db.fetch("EXPLAIN SELECT FROM bus_messages WHERE queue = 'none' AND id = 1")
    assert "Index" in plan[0][0]


async def test_acts_after_commit_run_once_after_it(brisk: Database) -> None:
    seen: list[str] = []
    async with brisk.transaction() as db:
        await db.execute("UPDATE test_rows SET n = 9")
        db.after_commit(lambda: seen.append("first"))
        db.after_commit(lambda: seen.append("second"))
        assert seen == []
    assert seen == ["first", "second"]
    async with brisk.transaction() as again:
        await again.execute("SELECT 1")
    assert seen == ["first", "second"], "the connection's next user has nothing to do with it"


async def test_acts_after_commit_do_not_run_without_a_commit(brisk: Database) -> None:
    seen: list[str] = []
    with pytest.raises(KeyError):
        async with brisk.transaction() as db:
            db.after_commit(lambda: seen.append("raised"))
            raise KeyError
    with pytest.raises(TransactionAborted):
        async with brisk.transaction() as db:
            db.after_commit(lambda: seen.append("swallowed"))
            with suppress(asyncpg.UniqueViolationError):
                await db.execute("INSERT INTO test_rows VALUES (1)")
    with pytest.raises(DatabaseUnavailable):
        async with brisk.transaction() as db:
            db.after_commit(lambda: seen.append("broken"))
            await db.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert await rows(brisk) == {1: 0, 2: 0}
    assert seen == []


async def test_retried_work_runs_its_acts_once(brisk: Database) -> None:
    seen: list[int] = []
    runs = 0

    async def work(db: Db) -> None:
        nonlocal runs
        runs += 1
        this = runs
        db.after_commit(lambda: seen.append(this))
        if runs < 3:
            raise asyncpg.SerializationError

    await brisk.run(work)
    assert seen == [3]


async def test_read_only_database_is_up_and_takes_no_writes(stack: Stack) -> None:
    url = await stack.new_database(f"reading-{uuid4().hex[:8]}")
    async with opened(url) as database:
        assert await database.takes_writes()
        async with database.connection() as db:
            name = await db.fetchval("SELECT current_database()")
            await db.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    async with opened(url) as database:
        assert await database.is_up()
        assert not await database.takes_writes()
        with pytest.raises(DatabaseUnavailable):
            await database.run(lambda db: db.execute("CREATE TABLE t ()"))


@asynccontextmanager
async def opened(url: str, limits: DatabaseLimits | None = None) -> AsyncIterator[Database]:
    database = await Database.open(url, limits=limits)
    try:
        yield database
    finally:
        await database.close()
