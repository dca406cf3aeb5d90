"""PostgreSQL: a bounded pool, short transactions, and failures turned into answers a caller can act on."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, cast

import asyncpg
import structlog
from prometheus_client import Counter, Histogram

from catraca.platform.clock import monotonic_seconds
from catraca.platform.database.pool import ConnectionPool
from catraca.platform.database.wakeups import Wakeups
from catraca.platform.errors import Busy, DatabaseUnavailable, OutcomeUnknown, Refusal

log = structlog.get_logger()

T = TypeVar("T")
Row = Mapping[str, Any]

LONG_TRANSACTION_SECONDS = 5.0
RETRY_PAUSES_SECONDS = (0.01, 0.05, 0.2)

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
    "catraca_database_refused_total", "Work turned away because the database was away or busy.", ["code"]
)


class Db(Protocol):
    """An open connection, as stores see it. Services pass it on and never commit."""

    async def fetch(self, query: str, *args: object) -> Sequence[Row]: ...
    async def fetchrow(self, query: str, *args: object) -> Row | None: ...
    async def fetchval(self, query: str, *args: object) -> Any: ...
    async def execute(self, query: str, *args: object) -> str: ...
    async def executemany(self, command: str, args: Iterable[Sequence[object]]) -> None: ...


class Transact(Protocol):
    """Runs `work` in one transaction, as `Database.run` does; for verbs with slow work between two."""

    async def __call__(self, work: Callable[[Db], Awaitable[T]]) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLimits:
    """Every wait on the database ends; these say when."""

    connections: int = 10
    acquire_seconds: float = 2.0
    connect_seconds: float = 3.0
    statement_seconds: float = 5.0
    lock_seconds: float = 2.0
    idle_in_transaction_seconds: float = 10.0


# For short statements that all have an index. A plan made while a queue is empty would read the whole table,
# and is kept for when it is full; and compiling takes longer than any of them.
BY_INDEX = {"enable_seqscan": "off", "jit": "off"}


class TransactionAborted(Exception):
    """The work caught a database error and went on; nothing of it was committed."""


class Bookends(Protocol):
    """Statements that travel with BEGIN and with COMMIT, and so cost no round trip of their own.

    They go as text, several to a message, which takes no parameters: only numbers and hex digits may be
    written into them.
    """

    def opening(self) -> str: ...
    def opened(self, tag: str) -> None:
        """Told the command tag of the opening statement, such as `SELECT 0`."""
        ...

    def closing(self) -> str: ...

    @property
    def locked_out(self) -> type[Refusal]:
        """What it means when the opening statement waited for a lock until `lock_timeout`."""
        ...


class KeptPlans:
    """Bookends: until the transaction ends, a statement is planned once for each connection, not each time.

    For long statements whose plan does not depend on what they are given: planning one that works on arrays
    takes longer than doing it, and PostgreSQL, left to itself, plans it for every array anew.
    """

    locked_out = Busy

    def opening(self) -> str:
        return "SET LOCAL plan_cache_mode = force_generic_plan"

    def opened(self, tag: str) -> None:
        pass

    def closing(self) -> str:
        return ""


# What the work on each connection will have to tell once it has committed.
_announced: dict[int, set[str]] = {}


def announce(db: Db, topic: str) -> None:
    """Wake whoever waits for this topic, when and if the work on this connection has committed."""
    _announced.setdefault(id(db), set()).add(topic)


# And what else is to be done then.
_afterwards: dict[int, list[Callable[[], object]]] = {}


def after_commit(db: Db, act: Callable[[], object]) -> None:
    """Do this when and if the work on this connection has committed: for figures, never for facts."""
    _afterwards.setdefault(id(db), []).append(act)


async def plan_afresh(db: Db) -> None:
    """Until this transaction ends, plan for the tables as they are now.

    Queues are empty at one moment and long at the next; a plan kept from the one reads all of the other.
    """
    # Bitmaps are sorted whole before the first row comes out, and statistics from when the queue was
    # otherwise make that look cheap; an index gives the first rows first.
    await db.execute("SET LOCAL plan_cache_mode = force_custom_plan; SET LOCAL enable_bitmapscan = off")


class Database:
    """The pool. `connection()` for reads, `transaction()` or `run()` for changes."""

    def __init__(self, pool: ConnectionPool, limits: DatabaseLimits, wakeups: Wakeups) -> None:
        self._pool = pool
        self._limits = limits
        self.wakeups = wakeups

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        limits: DatabaseLimits | None = None,
        application_name: str = "catraca",
        planning: Mapping[str, str] | None = None,
    ) -> Self:
        """Make the pool without connecting yet: a database that is away is a 503, not a failed start.

        `planning` are settings of PostgreSQL's planner, such as `BY_INDEX`.
        """
        limits = limits or DatabaseLimits()
        milliseconds = {
            "statement_timeout": limits.statement_seconds,
            "lock_timeout": limits.lock_seconds,
            "idle_in_transaction_session_timeout": limits.idle_in_transaction_seconds,
            # A backend whose client is gone gives up its locks at once, not at the statement's end.
            "client_connection_check_interval": 0.2,
        }
        settings = {name: str(int(seconds * 1000)) for name, seconds in milliseconds.items()}

        async def connect() -> Any:
            return await cast(Any, asyncpg).connect(
                url,
                timeout=limits.connect_seconds,
                # The server's own timeout comes first; this one is for a server that stopped answering.
                command_timeout=limits.statement_seconds + 1,
                server_settings={
                    **settings,
                    **(planning or {}),
                    "timezone": "UTC",
                    "application_name": application_name,
                },
            )

        return cls(ConnectionPool(connect, size=limits.connections), limits, Wakeups(connect))

    async def close(self) -> None:
        """Close every connection; what is not given back in time is cut."""
        await self.wakeups.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self._pool.drain()
        self._pool.close()

    async def is_up(self) -> bool:
        try:
            async with self.connection() as db:
                return await db.fetchval("SELECT true")
        except Refusal:
            return False

    async def takes_writes(self) -> bool:
        """Whether it is up, and neither a replica nor set to read only: after a failover it may be."""
        try:
            async with self.connection() as db:
                return await db.fetchval(
                    "SELECT NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'"
                )
        except Refusal:
            return False

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[Db]:
        """A connection outside any transaction: each statement stands alone."""
        connection = await self._acquire()
        try:
            yield connection
            for topic in _announced.get(id(connection), ()):
                self.wakeups.announce(topic)
            for act in _afterwards.get(id(connection), ()):
                act()
        except BaseException as error:
            if isinstance(error, UNFINISHED):
                _cut(connection)
            refusal = _as_refusal(error, connection)
            if refusal is None:
                raise
            raise refusal from error
        finally:
            _announced.pop(id(connection), None)
            _afterwards.pop(id(connection), None)
            self._pool.release(connection)

    @asynccontextmanager
    async def transaction(self, bookends: Bookends | None = None) -> AsyncGenerator[Db]:
        """One transaction: committed when the block ends, undone when it raises or is canceled."""
        async with self.connection() as db:
            began = monotonic_seconds()
            try:
                await _begin(db, bookends)
                yield db
                await _commit(db, bookends)
            except BaseException as error:
                await _undo(db, error)
                raise
            finally:
                _observe_transaction(monotonic_seconds() - began)

    async def run(self, work: Callable[[Db], Awaitable[T]], bookends: Bookends | None = None) -> T:
        """Do `work` in one transaction; a serialization failure or deadlock runs it again, a few times."""
        for pause_seconds in RETRY_PAUSES_SECONDS:
            try:
                async with self.transaction(bookends) as db:
                    return await work(db)
            except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError):
                RETRIED_TRANSACTIONS.inc()
                await asyncio.sleep(pause_seconds * random.uniform(0.5, 1.5))  # noqa: S311
        try:
            async with self.transaction(bookends) as db:
                return await work(db)
        except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError) as error:
            raise Busy from error

    async def _acquire(self) -> Any:
        try:
            async with asyncio.timeout(self._limits.acquire_seconds):
                return await self._pool.acquire()
        except Exception as error:
            refusal = _as_refusal(error, None)
            if refusal is None:
                raise
            REFUSED_CONNECTIONS.labels(refusal.code).inc()
            raise refusal from error


# After these an answer may still be under way, which the connection's next user must not get.
UNFINISHED = (asyncio.CancelledError, TimeoutError, asyncpg.InternalClientError)
_BROKEN = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError)


async def _begin(db: Db, bookends: Bookends | None) -> None:
    if bookends is None:
        await db.execute("BEGIN")
        return
    try:
        bookends.opened(await db.execute("BEGIN; " + bookends.opening()))
    except asyncpg.LockNotAvailableError as error:
        raise bookends.locked_out from error


async def _commit(db: Db, bookends: Bookends | None) -> None:
    try:
        tag = await db.execute("COMMIT" if bookends is None else bookends.closing() + "; COMMIT")
    except (*_BROKEN, TimeoutError) as error:
        raise OutcomeUnknown from error
    if tag != "COMMIT":  # PostgreSQL answers ROLLBACK when an earlier error was swallowed
        raise TransactionAborted


async def _undo(db: Db, error: BaseException) -> None:
    """Roll back; a connection that is canceled or broken is cut instead, which undoes as surely."""
    if isinstance(error, (*UNFINISHED, OutcomeUnknown)):
        _cut(db)
        return
    with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
        await db.execute("ROLLBACK")


def _observe_transaction(seconds: float) -> None:
    TRANSACTION_SECONDS.observe(seconds)
    if seconds > LONG_TRANSACTION_SECONDS:
        LONG_TRANSACTIONS.inc()
        log.warning("long_transaction", seconds=round(seconds, 3))


_AWAY = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InternalClientError,  # the driver found its connection broken between two messages
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InsufficientResourcesError,  # too many connections, a full disk, no memory
    # Not made yet, or a password being changed: whoever runs the server must act, the caller can only wait.
    asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.ReadOnlySQLTransactionError,  # a failover left us on a replica
)
_BUSY = (
    TimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)


def _as_refusal(error: BaseException, connection: Any) -> Refusal | None:
    """What a database failure means to the caller; None for everything that is not one."""
    if isinstance(error, _BUSY):
        return Busy()
    if isinstance(error, _AWAY) or (
        isinstance(error, asyncpg.InterfaceError) and (connection is None or connection.is_closed())
    ):
        return DatabaseUnavailable()
    return None


def _cut(connection: Any) -> None:
    """Close at once, without a word to the server, which then undoes and unlocks by itself."""
    if not connection.is_closed():
        connection.terminate()
