"""Database connections, taken and given back without a task, a copy or a round trip."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from catraca.platform.clock import monotonic_seconds
from catraca.platform.database.connection import Connection

# A server that moved, or a session that has grown large, is left behind by then.
LONGEST_LIFE_SECONDS = 1800.0


class ConnectionPool:
    """At most `size` connections, made when needed; whoever waits is served in the order of asking.

    A connection comes back ready for the next user or not at all: one that is closed or still in a
    transaction is dropped, and whoever was stopped amid a statement must close it first.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], *, size: int) -> None:
        self._connect = connect
        self._places = size
        self._idle: list[Connection] = []
        self._born: dict[Connection, float] = {}
        # Each is told either a connection or None, which stands for a place to make one in.
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._closed = False

    async def acquire(self) -> Connection:
        """A connection for the caller alone. Bound the wait with a timeout of your own."""
        while self._idle:
            connection = self._idle.pop()  # the last one used, whose caches are warm
            if not connection.is_closed():
                return connection
            self._drop(connection)
        if self._places > 0:
            self._places -= 1
            return await self._make()
        return await self._wait()

    def release(self, connection: Connection) -> None:
        """Give it back, to whoever waits longest if somebody does."""
        if connection not in self._born:  # the pool was closed meanwhile
            connection.terminate()
        elif connection.is_closed() or connection.is_in_transaction() or self._is_old(connection):
            connection.terminate()
            self._drop(connection)
            self._serve_next()
        else:
            self._idle.append(connection)
            self._serve_next()

    def close(self) -> None:
        """Close every connection; those in use are cut, and what they were doing is undone."""
        self._closed = True
        for connection in self._born:
            connection.terminate()
        self._born.clear()
        self._idle.clear()

    async def drain(self) -> None:
        """Return when no connection is in use any more."""
        while len(self._idle) < len(self._born):  # noqa: ASYNC110 - only at the end, and bounded by the caller
            await asyncio.sleep(0.02)

    async def _make(self) -> Connection:
        try:
            connection = await self._connect()
        except BaseException:
            self._places += 1
            self._serve_next()
            raise
        if self._closed:  # nobody else would close it
            connection.terminate()
            raise ConnectionAbortedError("the pool was closed")
        self._born[connection] = monotonic_seconds()
        return connection

    async def _wait(self) -> Connection:
        told: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(told)
        try:
            connection = await told
        except asyncio.CancelledError:
            if told.done() and not told.cancelled():  # served in the moment of giving up
                self._give_back(told.result())
            raise
        return connection if connection is not None else await self._make()

    def _give_back(self, served: Connection | None) -> None:
        if served is not None:
            self.release(served)
        else:
            self._places += 1
            self._serve_next()

    def _serve_next(self) -> None:
        while self._waiting and (self._idle or self._places > 0):
            told = self._waiting.popleft()
            if told.done():
                continue
            if self._idle:
                told.set_result(self._idle.pop())
            else:
                self._places -= 1
                told.set_result(None)

    def _drop(self, connection: Connection) -> None:
        self._born.pop(connection, None)
        self._places += 1

    def _is_old(self, connection: Connection) -> bool:
        return monotonic_seconds() - self._born[connection] > LONGEST_LIFE_SECONDS
