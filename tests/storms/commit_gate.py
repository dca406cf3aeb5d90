"""Between one API and PostgreSQL: lets everything pass, and stops the next COMMIT where it is told to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

# As the driver sends it, when the answer to the statement before has come: the end of a message of its own.
COMMIT = b"COMMIT\x00"
CHUNK_BYTES = 64 * 1024
REACHED_SECONDS = 30
SOCKET = ".s.PGSQL.{port}"
Window = Literal["before", "after"]


@dataclass
class Stop:
    """One COMMIT that got no further: not heard by the server, or heard and its answer not passed on."""

    window: Window
    _reached: asyncio.Event = field(default_factory=asyncio.Event)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _passes: bool = True

    async def reached_by(self, asking: asyncio.Task[Any]) -> None:
        """Wait until it is; an answer that comes without it says what is wrong."""
        reached = asyncio.create_task(self._reached.wait())
        await asyncio.wait([reached, asking], timeout=REACHED_SECONDS, return_when="FIRST_COMPLETED")
        reached.cancel()
        assert self._reached.is_set(), f"no COMMIT: {asking.result() if asking.done() else 'and no answer'}"

    def release(self) -> None:
        self._over.set()

    def lose(self) -> None:
        """Neither side hears of it any more, as when a network or a process dies."""
        self._passes = False
        self._over.set()

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

    def stop_next_commit(self, window: Window) -> Stop:
        """Only one transaction may be under way behind the gate then: its COMMIT is the next."""
        self._next = Stop(window)
        return self._next

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until somebody ends it."""
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
        with suppress(ConnectionError):
            while chunk := await reader.read(CHUNK_BYTES):
                if chunk.endswith(COMMIT) and self._next is not None:
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
    """At a socket of its own, whose address is the gate's `url`."""
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
