"""A proxy between a client and a server that loses data on request."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class Proxy:
    """Forwards all bytes, except as set in the fields below."""

    target: int
    port: int = 0
    connections: int = 0
    # This many responses are dropped: the server has handled the request, the client gets no response.
    swallow: int = 0
    # After how many bytes from the server each new connection is cut; an empty list: never.
    lifetimes: list[int] = field(default_factory=list)
    # New connections are cut at once.
    closed: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Abort every open connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.closed:
            writer.transport.abort()
            return
        left = self.lifetimes.pop(0) if self.lifetimes else None
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        both = {writer, there_writer}
        self._writers |= both
        try:
            with suppress(OSError):
                await asyncio.gather(
                    self._upstream(reader, there_writer), self._downstream(there_reader, writer, left)
                )
        finally:
            self._writers -= both
            for one in both:
                one.transport.abort()

    async def _upstream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while sent := await reader.read(65536):
            writer.write(sent)
            await writer.drain()
        raise ConnectionResetError

    async def _downstream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int | None
    ) -> None:
        while answer := await reader.read(65536):
            if self.swallow:
                self.swallow -= 1
                raise ConnectionResetError
            writer.write(answer[:left])
            await writer.drain()
            if left is not None:
                left -= len(answer)
                if left <= 0:
                    raise ConnectionResetError
        raise ConnectionResetError


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(port)
    tasks: set[asyncio.Task[None]] = set()

    def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.join(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(joined, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        await asyncio.gather(*tasks, return_exceptions=True)
