"""A scripted server of the socket's contract (docs/live.md), which can also break the contract."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from catraca.client import Client, Live

HEARTBEAT_SECONDS = 20.0


@dataclass
class Connection:
    """One connection, from the server's side."""

    socket: ServerConnection
    since: int | None
    token: str
    received: "asyncio.Queue[dict[str, Any]]"

    async def send(self, kind: str, data: dict[str, Any] | None = None, **more: object) -> None:
        await self.socket.send(json.dumps({"type": kind, "data": data or {}, **more}))

    async def hello(self, seq: int | None = None, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        begins_at = self.since or 0 if seq is None else seq
        await self.send("hello", {"seq": begins_at, "heartbeat_seconds": heartbeat_seconds})

    async def send_numbers(self, *seqs: int) -> None:
        for seq in seqs:
            await self.send("ride.arriving", {"number": seq}, seq=seq)

    def break_off(self) -> None:
        self.socket.transport.abort()

    async def stay(self) -> None:
        """Put the client's messages into `received` until it disconnects."""
        with suppress(ConnectionClosed):
            while True:
                self.received.put_nowait(json.loads(await self.socket.recv()))


Act = Callable[[Connection], Awaitable[None]]


@dataclass
class Scripted:
    """Each connection runs the next act; the last act is repeated."""

    acts: list[Act]
    port: int = 0
    connections: list[Connection] = field(default_factory=list)
    received: "asyncio.Queue[dict[str, Any]]" = field(default_factory=asyncio.Queue)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def meet(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        query = parse_qs(urlsplit(socket.request.path).query)
        since = int(query["since"][0]) if "since" in query else None
        token = socket.request.headers["authorization"].removeprefix("Bearer ")
        connection = Connection(socket, since, token, self.received)
        self.connections.append(connection)
        with suppress(ConnectionClosed):
            await self.acts[min(len(self.connections), len(self.acts)) - 1](connection)


@asynccontextmanager
async def scripted(*acts: Act) -> AsyncIterator[Scripted]:
    found = Scripted(list(acts))
    async with serve(found.meet, "127.0.0.1", 0, ping_interval=None, close_timeout=1) as server:
        found.port = next(iter(server.sockets)).getsockname()[1]
        yield found


@asynccontextmanager
async def listening(*acts: Act, **how: Any) -> AsyncIterator[tuple[Scripted, Live]]:
    """A scripted server and a listening client."""
    token = how.pop("token", "t")
    async with (
        scripted(*acts) as server,
        Client(server.url, token=token) as catraca,
        catraca.live(**{"since": 0, **how}) as live,
    ):
        yield server, live
