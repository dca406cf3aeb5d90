"""Raw HTTP: a separate server with its own limits, and requests that no client library would send."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import httpx
import msgspec
from fastapi import APIRouter, FastAPI

from catraca.platform.http.health import Health
from catraca.platform.http.request_middleware import RequestLimits
from catraca.platform.http.server import HttpServer, ServerLimits
from catraca.roles.api import ROUTERS, STREAMS, build_app
from catraca.roles.listener import open_listener
from catraca.roles.parts import Parts
from tests.servers import until


@dataclass
class Served:
    port: int
    server: HttpServer

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self.port}", headers={"accept-language": "en"}, timeout=30
        )


@asynccontextmanager
async def serving(app: FastAPI, limits: ServerLimits | None = None) -> AsyncIterator[Served]:
    """The application on a real socket of its own, until the block ends."""
    server = HttpServer(app, limits=limits)
    listener = open_listener("127.0.0.1", 0)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    await until(lambda: server.started or running.done())
    try:
        yield Served(listener.getsockname()[1], server)
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def served(
    parts: Parts,
    routers: Sequence[APIRouter] = (),
    *,
    limits: ServerLimits | None = None,
    request_limits: RequestLimits | None = None,
    **settings: object,
) -> AsyncIterator[Served]:
    """The API with these settings and further routes, on a port of its own."""
    changed = replace(parts, settings=parts.settings.changed(**settings))
    app = build_app(
        changed, Health(required={"database": parts.database.reserve.is_up}), [*ROUTERS, *routers]
    )
    if request_limits is not None:
        app.parts = replace(app.parts, request_limits=request_limits)
    async with serving(app, limits or ServerLimits(streams=STREAMS)) as served:
        yield served


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def problem(self) -> dict[str, object]:
        assert self.headers["content-type"] == "application/problem+json"
        return msgspec.json.decode(self.body)


class Line:
    """A raw HTTP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, *parts: bytes) -> None:
        """Send, unless the server has closed the connection."""
        if not self._writer.is_closing():
            self._writer.write(b"".join(parts))

    async def answer(self) -> Answer:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        length = int(headers.get("content-length", "0"))
        return Answer(int(head[0].split()[1]), headers, await self._reader.readexactly(length))

    async def closed_by_server(self) -> bytes:
        """Wait until the server closes the connection; returns all bytes received until then."""
        try:
            return await self._reader.read()
        except ConnectionResetError:
            return b""

    async def hang_up(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return


@asynccontextmanager
async def line_to(to: Served) -> AsyncIterator[Line]:
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", to.port)
        line = Line(reader, writer)
        try:
            yield line
        finally:
            await line.hang_up()


async def ask(to: Served, *parts: bytes) -> Answer:
    """Send one request on a new connection."""
    async with line_to(to) as line:
        line.send(*parts)
        return await line.answer()
