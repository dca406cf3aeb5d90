"""Connections to PostgreSQL, and the view of them that stores have (`Db`)."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import asyncpg

T = TypeVar("T")
Row = Mapping[str, Any]


class Db(Protocol):
    """An open connection. Services pass it on to stores and never commit."""

    async def fetch(self, query: str, *args: object) -> Sequence[Row]: ...
    async def fetchrow(self, query: str, *args: object) -> Row | None: ...
    async def fetchval(self, query: str, *args: object) -> Any: ...
    async def execute(self, query: str, *args: object) -> str: ...
    async def executemany(self, command: str, args: Iterable[Sequence[object]]) -> None: ...

    def after_commit(self, act: Callable[[], object]) -> None:
        """Call `act` after the commit, if there is one: for metrics and caches, never for facts."""
        ...

    def notify(self, topic: str) -> None:
        """Wake the processes that wait for this topic after the commit, if there is one."""
        ...


class Transact(Protocol):
    """Runs `work` in one transaction, as `Database.run` does. For verbs with slow work between two."""

    async def __call__(self, work: Callable[[Db], Awaitable[T]]) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLimits:
    """The longest waits on the database, and the size of the pool."""

    connections: int = 10
    acquire_seconds: float = 2.0
    connect_seconds: float = 3.0
    statement_seconds: float = 5.0
    lock_seconds: float = 2.0
    idle_in_transaction_seconds: float = 10.0


class Connection(cast(Any, asyncpg).Connection):
    """asyncpg's connection, with the acts and topics that wait for the commit."""

    __slots__ = ("acts", "topics")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # pyright: ignore[reportUnknownMemberType]
        self.acts: list[Callable[[], object]] = []
        self.topics: set[str] = set()

    def after_commit(self, act: Callable[[], object]) -> None:
        self.acts.append(act)

    def notify(self, topic: str) -> None:
        self.topics.add(topic)

    def forget(self) -> None:
        """Drop what waits for a commit, before the connection's next user."""
        self.acts.clear()
        self.topics.clear()

    def cut(self) -> None:
        """Close at once, without a message: the server rolls back and unlocks by itself."""
        if not self.is_closed():
            self.terminate()


def connector(
    url: str, limits: DatabaseLimits, *, application_name: str, planning: Mapping[str, str]
) -> Callable[[], Awaitable[Connection]]:
    """A function that opens a connection with these limits and planner settings."""
    milliseconds = {
        "statement_timeout": limits.statement_seconds,
        "lock_timeout": limits.lock_seconds,
        "idle_in_transaction_session_timeout": limits.idle_in_transaction_seconds,
        # A backend whose client is gone releases its locks at once, not at the end of the statement.
        "client_connection_check_interval": 0.2,
    }
    settings = {
        **{name: str(int(seconds * 1000)) for name, seconds in milliseconds.items()},
        **planning,
        "timezone": "UTC",
        "application_name": application_name,
    }

    async def connect() -> Connection:
        return await cast(Any, asyncpg).connect(
            url,
            connection_class=Connection,
            timeout=limits.connect_seconds,
            # The server's own timeout comes first; this one is for a server that stopped answering.
            command_timeout=limits.statement_seconds + 1,
            server_settings=settings,
        )

    return connect
