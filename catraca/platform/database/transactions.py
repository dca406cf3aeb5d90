"""A bounded pool and short transactions."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Protocol, Self, TypeVar

import asyncpg
import structlog
from prometheus_client import Counter, Histogram

from catraca.platform.clock import monotonic_seconds
from catraca.platform.database.connection import Connection, DatabaseLimits, Db, connector
from catraca.platform.database.failures import BROKEN, CONFLICTS, UNFINISHED, as_refusal
from catraca.platform.database.notify_channel import NotifyChannel
from catraca.platform.database.pool import ConnectionPool
from catraca.platform.errors import Busy, OutcomeUnknown, Refusal

log = structlog.get_logger()

T = TypeVar("T")
Connect = Callable[[], Awaitable[Connection]]

LONG_TRANSACTION_SECONDS = 5.0
RETRY_PAUSES_SECONDS = (0.01, 0.05, 0.2)
DRAIN_SECONDS = 5.0
# One question about readiness, one about revocations, and one new account at a time.
RESERVED_CONNECTIONS = 3

LONG_TRANSACTIONS = Counter("catraca_database_long_transactions_total", "Transactions over 5 s.")
RETRIED_TRANSACTIONS = Counter(
    "catraca_database_retried_transactions_total",
    "Transactions run again after a serialization failure or deadlock.",
)
TRANSACTION_SECONDS = Histogram(
    "catraca_database_transaction_seconds",
    "How long transactions stay open.",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 5, 15),
)
REFUSED_CONNECTIONS = Counter(
    "catraca_database_refused_total", "Work refused because the database was away or busy.", ["code"]
)

# Planner settings for short statements that all have an index. A plan made while a queue is empty would read
# the whole table, and PostgreSQL keeps it for when the queue is full. Compiling takes longer than they do.
PREFER_INDEXES = {"enable_seqscan": "off", "jit": "off"}


class TransactionAborted(Exception):
    """The work caught a database error and continued; nothing of it was committed."""


class TransactionHooks(Protocol):
    """Statements sent in one message with BEGIN and with COMMIT, without a round trip of their own.

    They are text without parameters: only numbers and hex digits may be written into them.
    """

    def begin_sql(self) -> str: ...
    def begun(self, tag: str) -> None:
        """Called with the command tag of the last statement of `begin_sql`, such as `SELECT 0`."""
        ...

    def commit_sql(self) -> str: ...

    @property
    def locked_out(self) -> type[Refusal]:
        """The refusal if `begin_sql` waits for a lock until `lock_timeout`."""
        ...


class GenericPlans:
    """Transaction hooks: plan each statement once per connection, not once per call.

    For long statements whose plan does not depend on their parameters. PostgreSQL would plan a statement on
    arrays anew for each array, which takes longer than running it.
    """

    locked_out = Busy

    def begin_sql(self) -> str:
        return "SET LOCAL plan_cache_mode = force_generic_plan"

    def begun(self, tag: str) -> None:
        pass

    def commit_sql(self) -> str:
        return ""


async def use_custom_plans(db: Db) -> None:
    """Until the transaction ends, plan each statement for the tables as they are now.

    A queue is empty at one moment and long at the next; a plan kept from the first reads all of the second.
    """
    # A bitmap is sorted whole before its first row; old statistics can make that look cheap. An index returns
    # the first rows first.
    await db.execute("SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_bitmapscan = off")


class Database:
    """The pool. Use `connection()` for reads, `transaction()` or `run()` for changes."""

    def __init__(self, connect: Connect, limits: DatabaseLimits, channel: NotifyChannel) -> None:
        self._connect = connect
        self._pool = ConnectionPool(connect, size=limits.connections)
        self._limits = limits
        self.channel = channel
        self._reserve: Database | None = None

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        limits: DatabaseLimits | None = None,
        application_name: str = "catraca",
        planning: Mapping[str, str] | None = None,
    ) -> Self:
        """Make the pool without connecting: a database that is away is a 503, not a failed start.

        `planning` are settings of PostgreSQL's planner, such as `PREFER_INDEXES`.
        """
        limits = limits or DatabaseLimits()
        connect = connector(url, limits, application_name=application_name, planning=planning or {})
        return cls(connect, limits, NotifyChannel(connect))

    @property
    def reserve(self) -> "Database":
        """A few connections for authentication and readiness, which must not wait for other work.

        They are opened when needed, and closed with this pool. Both share the connection for notifications.
        """
        if self._reserve is None:
            limits = replace(self._limits, connections=RESERVED_CONNECTIONS)
            self._reserve = Database(self._connect, limits, self.channel)
        return self._reserve

    async def close(self) -> None:
        """Close every connection; those not released in time are cut."""
        if self._reserve is not None:
            await self._reserve.close()
        await self.channel.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._pool.drain()
        self._pool.close()

    async def is_up(self) -> bool:
        try:
            async with self.connection() as db:
                return await db.fetchval("SELECT true")
        except Refusal:
            return False

    async def takes_writes(self) -> bool:
        """True if it is up, not a replica, and not read-only, as it may be after a failover."""
        try:
            async with self.connection() as db:
                return await db.fetchval(
                    "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'"
                )
        except Refusal:
            return False

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Db]:
        """A connection outside a transaction: each statement commits by itself."""
        connection = await self._acquire()
        try:
            yield connection
            self._committed(connection)
        except BaseException as error:
            _fail(connection, error)
            raise
        finally:
            self._release(connection)

    @asynccontextmanager
    async def transaction(self, hooks: TransactionHooks | None = None) -> AsyncGenerator[Db]:
        """One transaction: committed when the block ends, rolled back when it raises or is canceled."""
        async with self.connection() as db:
            began = monotonic_seconds()
            try:
                await _begin(db, hooks)
                yield db
                await _commit(db, hooks)
            except BaseException as error:
                await _roll_back(db, error)
                raise
            finally:
                _observe(monotonic_seconds() - began)

    async def run(self, work: Callable[[Db], Awaitable[T]], hooks: TransactionHooks | None = None) -> T:
        """Run `work` in one transaction; again, a few times, after a serialization failure or deadlock."""
        for pause_seconds in RETRY_PAUSES_SECONDS:
            try:
                return await self._run_once(work, hooks)
            except CONFLICTS:
                RETRIED_TRANSACTIONS.inc()
                await asyncio.sleep(pause_seconds * random.uniform(0.5, 1.5))  # noqa: S311
        try:
            return await self._run_once(work, hooks)
        except CONFLICTS as error:
            raise Busy from error

    async def _run_once(self, work: Callable[[Db], Awaitable[T]], hooks: TransactionHooks | None) -> T:
        """The same as `transaction`, without its two context managers: most requests come here."""
        connection = await self._acquire()
        began = monotonic_seconds()
        try:
            await _begin(connection, hooks)
            result = await work(connection)
            await _commit(connection, hooks)
        except BaseException as error:
            await _roll_back(connection, error)
            _fail(connection, error)
            raise
        else:
            self._committed(connection)
            return result
        finally:
            _observe(monotonic_seconds() - began)
            self._release(connection)

    async def _acquire(self) -> Connection:
        if (idle := self._pool.take_idle()) is not None:
            return idle
        try:
            async with asyncio.timeout(self._limits.acquire_seconds):
                return await self._pool.acquire()
        except Exception as error:
            refusal = as_refusal(error, None)
            if refusal is None:
                raise
            REFUSED_CONNECTIONS.labels(refusal.code).inc()
            raise refusal from error

    def _release(self, connection: Connection) -> None:
        connection.forget()
        self._pool.release(connection)

    def _committed(self, connection: Connection) -> None:
        for topic in connection.topics:
            self.channel.publish(topic)
        for act in connection.acts:
            act()


async def _begin(db: Db, hooks: TransactionHooks | None) -> None:
    if hooks is None:
        await db.execute("BEGIN")
        return
    try:
        hooks.begun(await db.execute("BEGIN; " + hooks.begin_sql()))
    except asyncpg.LockNotAvailableError as error:
        raise hooks.locked_out from error


async def _commit(db: Db, hooks: TransactionHooks | None) -> None:
    try:
        tag = await db.execute("COMMIT" if hooks is None else hooks.commit_sql() + "; COMMIT")
    except (*BROKEN, TimeoutError) as error:
        raise OutcomeUnknown from error
    if tag != "COMMIT":  # PostgreSQL answers ROLLBACK when the work caught an earlier error
        raise TransactionAborted


async def _roll_back(db: Db, error: BaseException) -> None:
    if isinstance(error, (*UNFINISHED, OutcomeUnknown)):
        return  # the connection is cut, so the server rolls back
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
        await db.execute("ROLLBACK")


def _fail(connection: Connection, error: BaseException) -> None:
    """Cut a connection that is not ready for its next user; raise the refusal that the error means."""
    if isinstance(error, (*UNFINISHED, OutcomeUnknown)):
        connection.cut()
    refusal = as_refusal(error, connection)
    if refusal is not None:
        raise refusal from error


def _observe(seconds: float) -> None:
    TRANSACTION_SECONDS.observe(seconds)
    if seconds > LONG_TRANSACTION_SECONDS:
        LONG_TRANSACTIONS.inc()
        log.warning("long_transaction", seconds=round(seconds, 3))
