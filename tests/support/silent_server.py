"""A server that accepts connections, reads, and never answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class SilentServer:
    origin: str = ""
    opened: int = 0
    closed: int = 0
    hung_up: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self._writers.add(writer)
        while not self.hung_up and await reader.read(2**16):
            pass
        self.closed += 1
        self._writers.discard(writer)
        writer.close()

    def hang_up(self) -> None:
        """Close all connections, and later ones at once, without an answer."""
        self.hung_up = True
        for writer in self._writers:
            writer.transport.abort()


@asynccontextmanager
async def silent_server() -> AsyncIterator[SilentServer]:
    silent = SilentServer()
    server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
    silent.origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield silent
    finally:
        server.close()
        silent.hang_up()
