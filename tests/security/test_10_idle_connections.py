"""Finding 10: one address took all connections of the server with idle keep-alives."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_network
from uuid import uuid4

import pytest
from fastapi import APIRouter, Request
from websockets.asyncio.client import connect

from catraca.platform.http.connections import LOOPBACK
from catraca.platform.http.server import ServerLimits
from catraca.roles.api.role import server_limits
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.servers import on_one_stack, until
from tests.support.http import Line, Served, served

pytestmark = on_one_stack

GET = b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n"
# Without its body, the request keeps its connection busy.
UNFINISHED = b"POST /probe HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\n\r\n"
# On loopback, which has no limit by default.
LIMITS = ServerLimits(connections_per_address=3, proxies=(), head_seconds=1000)

router = APIRouter()


@router.post("/probe")
async def probe(request: Request) -> int:
    return len(await request.body())


@asynccontextmanager
async def line_from(to: Served, address: str = "127.0.0.1") -> AsyncIterator[Line]:
    async with asyncio.timeout(30):
        line = Line(*await asyncio.open_connection("127.0.0.1", to.port, local_addr=(address, 0)))
        try:
            yield line
        finally:
            await line.hang_up()


async def test_address_with_many_connections_loses_its_idle_ones(parts: Parts) -> None:
    async with served(parts, limits=LIMITS) as server, AsyncExitStack() as opened:
        other = await opened.enter_async_context(line_from(server, "127.0.0.2"))
        lines = [await opened.enter_async_context(line_from(server)) for _ in range(6)]
        for line in (other, *lines[3:]):
            line.send(GET)
            assert (await line.answer()).status == 200
        for line in lines[:3]:
            assert await line.closed_by_server() == b""
        assert len(server.server.server_state.connections) == 4


async def test_address_with_busy_connections_is_refused(parts: Parts) -> None:
    async with served(parts, [router], limits=LIMITS) as server, AsyncExitStack() as opened:
        lines = [await opened.enter_async_context(line_from(server)) for _ in range(3)]
        for line in lines:
            line.send(UNFINISHED)
        await until(lambda: len(server.server.server_state.tasks) == 3)
        refused = await opened.enter_async_context(line_from(server))
        refused.send(GET)
        answer = await refused.answer()
        assert (answer.status, answer.problem()["code"]) == (429, "too_many_connections")
        assert answer.headers["retry-after"] == "1"
        assert await refused.closed_by_server() == b""
        other = await opened.enter_async_context(line_from(server, "127.0.0.2"))
        other.send(GET)
        assert (await other.answer()).status == 200
        lines[0].send(b"{}")
        assert (await lines[0].answer()).status == 200


async def test_sockets_count_as_connections_until_they_end(parts: Parts) -> None:
    async with served(parts, limits=LIMITS) as server:
        async with AsyncExitStack() as opened:
            for _ in range(3):
                address = f"ws://127.0.0.1:{server.port}/v1/ws"
                await opened.enter_async_context(
                    connect(address, additional_headers=bearer("passenger", uuid4()))
                )
            async with line_from(server) as line:
                line.send(GET)
                assert (await line.answer()).status == 429
        await until(lambda: not server.server.server_state.connections)
        async with line_from(server) as line:
            line.send(GET)
            assert (await line.answer()).status == 200


@pytest.mark.parametrize("trusted", ["127.0.0.0/8", "10.0.0.0/8"])
async def test_proxies_and_this_machine_have_no_limit(parts: Parts, trusted: str) -> None:
    http = parts.settings.changed(connections_per_address=1, trusted_proxies=[ip_network(trusted)]).http
    limits = server_limits(http)
    assert [*limits.proxies] == [*LOOPBACK, ip_network(trusted)]
    async with served(parts, limits=limits) as server, AsyncExitStack() as opened:
        lines = [await opened.enter_async_context(line_from(server)) for _ in range(4)]
        for line in lines:
            line.send(GET)
            assert (await line.answer()).status == 200
