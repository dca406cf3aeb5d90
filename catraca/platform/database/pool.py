"""A pool of database connections: no tasks, no proxies, no round trips to acquire or release."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from catraca.platform.clock import monotonic_seconds
from catraca.platform.database.connection import Connection

# Older connections are replaced: the server may have moved, or the session's memory grown.
LONGEST_LIFE_SECONDS = 1800.0


class ConnectionPool:
    """At most `size` connections, opened when needed. Waiting callers are served in order.

    A released connection must be ready for the next user: one that is closed or still in a transaction is
    dropped. A caller that was canceled during a statement must close its connection first.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], *, size: int) -> None:
        self._connect = connect
        self._free_places = size
        self._idle: list[Connection] = []
        self._opened_at: dict[Connection, float] = {}
        # Each receives a connection, or None: a free place to open one.
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._closed = False

    def take_idle(self) -> Connection | None:
        """A connection for this caller only, if one is idle."""
        while self._idle:
            connection = self._idle.pop()  # the last one used, whose caches are warm
            if not connection.is_closed():
                return connection
            self._drop(connection)
        return None

    async def acquire(self) -> Connection:
        """A connection for this caller only. The caller bounds the wait with a timeout."""
        if (idle := self.take_idle()) is not None:
            return idle
        if self._free_places > 0:
            self._free_places -= 1
            return await self._open()
        return await self._wait()

    def release(self, connection: Connection) -> None:
        """Return the connection to the pool, or to the caller that waits longest."""
        if connection not in self._opened_at:  # the pool was closed meanwhile
            connection.terminate()
        elif connection.is_closed() or connection.is_in_transaction() or self._is_old(connection):
            connection.terminate()
            self._drop(connection)
            self._serve_next()
        else:
            self._idle.append(connection)
            self._serve_next()

    def close(self) -> None:
        """Close every connection. Those in use are cut, so the server rolls back their work."""
        self._closed = True
        for connection in self._opened_at:
            connection.terminate()
        self._opened_at.clear()
        self._idle.clear()

    async def drain(self) -> None:
        """Wait until no connection is in use."""
        while len(self._idle) < len(self._opened_at):  # noqa: ASYNC110 - at shutdown only
            await asyncio.sleep(0.02)

    async def _open(self) -> Connection:
        try:
            connection = await self._connect()
        except BaseException:
            self._free_places += 1
            self._serve_next()
            raise
        if self._closed:  # `close` does not know this connection
            connection.terminate()
            raise ConnectionAbortedError("the pool was closed")
        self._opened_at[connection] = monotonic_seconds()
        return connection

    async def _wait(self) -> Connection:
        served: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(served)
        try:
            connection = await served
        except asyncio.CancelledError:
            if served.done() and not served.cancelled():  # served and canceled at the same time
                self._give_back(served.result())
            raise
        return connection if connection is not None else await self._open()

    def _give_back(self, served: Connection | None) -> None:
        if served is not None:
            self.release(served)
        else:
            self._free_places += 1
            self._serve_next()

    def _serve_next(self) -> None:
        while self._waiting and (self._idle or self._free_places > 0):
            served = self._waiting.popleft()
            if served.done():
                continue
            if self._idle:
                served.set_result(self._idle.pop())
            else:
                self._free_places -= 1
                served.set_result(None)

    def _drop(self, connection: Connection) -> None:
        self._opened_at.pop(connection, None)
        self._free_places += 1

    def _is_old(self, connection: Connection) -> bool:
        return monotonic_seconds() - self._opened_at[connection] > LONGEST_LIFE_SECONDS
