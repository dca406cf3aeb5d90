"""A proxy between one API and PostgreSQL that can stop the COMMIT of one transaction."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

# The end of a message of its own: the driver sends it after the answer to the statement before.
COMMIT = b"COMMIT\x00"
BEGIN = b"BEGIN"
HEADER_BYTES = 5
CHUNK_BYTES = 64 * 1024
REACHED_SECONDS = 30
SOCKET = ".s.PGSQL.{port}"
Window = Literal["before", "after"]


@dataclass
class Stop:
    """A stopped COMMIT: before it reaches the server, or after it, with the answer not passed back."""

    window: Window
    # Bytes that only the transaction to stop sends, such as an idempotency key.
    mark: bytes
    _reached: asyncio.Event = field(default_factory=asyncio.Event)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _passes: bool = True

    async def reached_by(self, asking: asyncio.Task[Any]) -> None:
        """Wait until the COMMIT is stopped; fail with the answer if the caller is answered first."""
        reached = asyncio.create_task(self._reached.wait())
        await asyncio.wait([reached, asking], timeout=REACHED_SECONDS, return_when="FIRST_COMPLETED")
        reached.cancel()
        assert self._reached.is_set(), f"no COMMIT: {asking.result() if asking.done() else 'and no answer'}"

    def release(self) -> None:
        self._over.set()

    def lose(self) -> None:
        """Cut the connection, as when a network or a process dies."""
        self._passes = False
        self._over.set()

    @property
    def is_reached(self) -> bool:
        return self._reached.is_set()

    async def passes(self) -> bool:
        self._reached.set()
        await self._over.wait()
        return self._passes


@dataclass
class CommitGate:
    url: str
    _server: Path
    _next: Stop | None = None
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    def stop_commit(self, window: Window, *, of: bytes) -> Stop:
        """Stop the next COMMIT of a transaction that sent these bytes.

        One request can commit more than once: an attempt at a ride that another process has locked first
        commits a transaction in which it decided nothing.
        """
        self._next = Stop(window, of)
        return self._next

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until a side closes it."""
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        from_server, to_server = await asyncio.open_unix_connection(str(self._server))
        stopped: asyncio.Queue[Stop] = asyncio.Queue()
        ways = [
            asyncio.create_task(self._pass_on(reader, to_server, stopped)),
            asyncio.create_task(self._pass_back(from_server, writer, stopped)),
            asyncio.create_task(self._closing.wait()),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        to_server.close()
        writer.close()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stopped: asyncio.Queue[Stop]
    ) -> None:
        sent = b""
        with suppress(ConnectionError):
            while chunk := await reader.read(CHUNK_BYTES):
                # Everything since the transaction began: a mark may be cut in two by the chunks.
                sent = chunk if chunk[HEADER_BYTES:].startswith(BEGIN) else sent + chunk
                if chunk.endswith(COMMIT) and self._next is not None and self._next.mark in sent:
                    stop, self._next = self._next, None
                    if stop.window == "after":
                        stopped.put_nowait(stop)
                    elif not await stop.passes():
                        return
                writer.write(chunk)

    async def _pass_back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stopped: asyncio.Queue[Stop]
    ) -> None:
        with suppress(ConnectionError):
            while chunk := await reader.read(CHUNK_BYTES):
                if not stopped.empty() and not await stopped.get_nowait().passes():
                    return
                writer.write(chunk)

    async def close(self) -> None:
        self._closing.set()
        await asyncio.gather(*self._connections)


@asynccontextmanager
async def open_gate(database_url: str) -> AsyncIterator[CommitGate]:
    """Open a gate at a socket of its own; its `url` is the database's address for the API."""
    parts = parse_qs(urlsplit(database_url).query)
    host, port = parts["host"][0], parts.get("port", ["5432"])[0]
    with TemporaryDirectory(prefix="catraca-gate-") as folder:
        gate = CommitGate(database_url.replace(host, folder), Path(host) / SOCKET.format(port=port))
        server = await asyncio.start_unix_server(gate.serve, Path(folder) / SOCKET.format(port=port))
        try:
            yield gate
        finally:
            server.close()
            await gate.close()
