"""A server in its own process: memory under hostile clients, and logs without personal data."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from uuid import uuid4

import httpx
import pytest

from tests.conftest import SECRET, bearer, free_port
from tests.domains.notifications.devices import opened, refusal
from tests.domains.notifications.wire import CONTINUED, PING, TEXT, frame, wire_to
from tests.domains.people.person import Person
from tests.servers import Stack, on_one_stack, until
from tests.storms.processes import is_ready
from tests.support import forked
from tests.support.forked import ForkedProcess

pytestmark = [on_one_stack, pytest.mark.xdist_group("live process")]

MEGABYTE = 2**20
# A generous limit: the clients send many times as much.
GROWTH_BYTES = 48 * MEGABYTE


@dataclass
class Server:
    process: ForkedProcess
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
async def server(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    port, log = free_port(), folder / "log"
    environment = os.environ | {
        "CATRACA_STATE_DIR": str(folder),
        "CATRACA_DATABASE_URL": await stack.migrated_database(f"live_{uuid4().hex[:8]}"),
        "CATRACA_REDIS_URL": stack.redis_url,
        "CATRACA_SECRET": SECRET,
        "CATRACA_PORT": str(port),
        "CATRACA_LOG_LEVEL": "debug",
        "CATRACA_RATE_LIMIT_ANONYMOUS": "1000000/second",
        "CATRACA_RATE_LIMIT_PRINCIPAL": "1000000/second",
    }
    process = forked.start(forked.CATRACA, "serve", "api", environment=environment, stderr=log)
    try:
        await until(lambda: is_ready(port))
        yield Server(process, port, log)
    finally:
        process.kill()
        process.wait()


async def flood(server: Server, data: bytes, most: int, *, first: bytes = b"") -> None:
    """Send `data` repeatedly on a new socket, up to `most` bytes, until the server closes it."""
    async with wire_to(server.port) as wire:
        await wire.opened(bearer()["authorization"])
        wire._writer.transport.pause_reading()
        await wire.push(first)
        sent = 0
        while sent < most and await wire.push(data):
            sent += len(data)


async def test_unauthenticated_clients_do_not_grow_memory(server: Server) -> None:
    await flood(server, frame(PING, b"x" * 125) * 2000, MEGABYTE)
    before = server.resident_bytes()
    large = frame(TEXT, b"x" * 10 * MEGABYTE)
    nothing = frame(CONTINUED, fin=False) * 50_000
    pieces = frame(CONTINUED, b"x" * 1000, fin=False) * 300
    started = frame(TEXT, b"x", fin=False)
    for _ in range(3):
        await asyncio.gather(
            *(flood(server, large, 10 * MEGABYTE) for _ in range(4)),
            *(flood(server, nothing, 60 * MEGABYTE, first=started) for _ in range(2)),
            *(flood(server, pieces, 60 * MEGABYTE, first=started) for _ in range(2)),
            *(flood(server, frame(PING, b"x" * 125) * 2000, 60 * MEGABYTE) for _ in range(2)),
        )
    assert server.resident_bytes() - before < GROWTH_BYTES
    async with opened(server.url, bearer()) as device:
        assert await device.is_silent()


async def test_logs_and_metrics_contain_no_personal_data(server: Server) -> None:
    ana, secret = Person(), f"secret-{uuid4()}"
    token = ana.headers["authorization"].removeprefix("Bearer ")
    async with httpx.AsyncClient(base_url=server.url) as client:
        ticket = (await client.post("/v1/ws/ticket", headers=ana.headers)).json()["ticket"]
        async with opened(server.url, query=f"ticket={ticket}") as device:
            assert (await device.ask("dance", {"words": secret}))["type"] == "error"
            for _ in range(10):
                await device.socket.send(secret)
            assert await device.closed() == (4400, "message_malformed")
        assert await refusal(server.url, query=f"ticket={ticket}") == (401, "ticket_invalid")
        evil = ana.headers | {"origin": f"https://{secret}.example"}
        assert await refusal(server.url, evil, query=f"ticket={ticket}") == (403, "origin_refused")
        assert await refusal(server.url, query=f"ticket={secret}&since=0") == (401, "ticket_invalid")
        async with wire_to(server.port) as wire:
            await wire.opened(ana.headers["authorization"])
            wire.send(frame(TEXT, secret.encode() + b"\xff"))
            assert (await wire.closed())[0] == 1007
        figures = (await client.get("/metrics")).text
    for reason in ("socket_refused", "origin_refused", "ticket_invalid", "message_malformed", "bad_text"):
        await until(lambda reason=reason: reason in server.log.read_text())
    assert 'catraca_ws_refused_total{code="origin_refused"} 1.0' in figures
    assert 'catraca_ws_ended_total{reason="message_malformed"} 1.0' in figures
    for text in (server.log.read_text(), figures):
        for secret_text in (ticket, token, secret, str(ana.id)):
            assert secret_text not in text
    assert '"level":"error"' not in server.log.read_text()


async def test_process_says_goodbye_on_sigterm(server: Server) -> None:
    async with opened(server.url, bearer()) as device:
        server.process.send_signal(SIGTERM)
        code, reason = await device.closed()
        assert (code, reason) == (1012, "restarting")
        assert '"type":"goodbye"' in device.received[-1]
    assert await asyncio.to_thread(server.process.wait, 20) == 0
