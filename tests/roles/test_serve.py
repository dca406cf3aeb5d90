"""`catraca serve` as a process: roles, workers, draining, refusals."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGTERM
from uuid import uuid4

import httpx
import pytest

from tests.conftest import SECRET, bearer, free_port
from tests.journeys.instances import STOP_SECONDS, descendants, is_alive, is_listening, parent_of
from tests.servers import Stack, on_one_stack, until
from tests.support.http import Line

# The journeys show the same on the embedded stack, where `catraca up` starts the workers.
pytestmark = [on_one_stack, pytest.mark.xdist_group("serve")]


class Server:
    """A `catraca serve` against this stack, and its log."""

    def __init__(self, stack: Stack, folder: Path, **settings: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{self.port}.log"
        self.environment = {
            **os.environ,
            "CATRACA_PORT": str(self.port),
            "CATRACA_STATE_DIR": str(folder),
            "CATRACA_DATABASE_URL": stack.database_url,
            "CATRACA_REDIS_URL": stack.redis_url,
            "CATRACA_SECRET": SECRET,
            "CATRACA_RATE_LIMIT_ANONYMOUS": "100000/minute",
            **settings,
        }
        self.process: asyncio.subprocess.Process

    async def start(self, *arguments: str) -> None:
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "catraca", "serve", *arguments, env=self.environment, stderr=log
            )

    async def ready(self) -> bool:
        assert self.process.returncode is None, self.log.read_text()
        try:
            async with httpx.AsyncClient(timeout=10) as client:
                return (await client.get(f"{self.url}/readyz")).status_code == 200
        except httpx.TransportError:
            return False

    async def ended(self) -> int:
        async with asyncio.timeout(STOP_SECONDS):
            return await self.process.wait()

    def workers(self) -> list[int]:
        return [pid for pid in descendants(self.process.pid) if parent_of(pid) == self.process.pid]

    def events(self) -> list[dict[str, object]]:
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


@asynccontextmanager
async def server(stack: Stack, folder: Path, **settings: str) -> AsyncIterator[Server]:
    found = Server(stack, folder, **settings)
    try:
        yield found
    finally:
        if found.process.returncode is None:
            found.process.kill()
            await found.process.wait()


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_sigterm_finishes_requests_and_closes_the_port(
    stack: Stack, tmp_path: Path, workers: str
) -> None:
    body = b'{"name": "Ana"}'
    head = (
        "PATCH /v1/me HTTP/1.1\r\nHost: catraca\r\nExpect: 100-continue\r\n"
        "Content-Type: application/json\r\n"
        f"Authorization: {bearer()['authorization']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    async with server(stack, tmp_path) as here:
        await here.start("api", "--workers", workers)
        await until(here.ready)
        line = Line(*await asyncio.open_connection("127.0.0.1", here.port))
        line.send(head.encode())
        assert (await line.answer()).status == 100, "the server now waits for the body"
        here.process.send_signal(SIGTERM)
        await until(lambda: not is_listening(here.port))
        line.send(body)
        assert (await line.answer()).status == 200
        await line.hang_up()
        assert await here.ended() == 0


async def test_drain_delay_reports_not_ready_before_closing(stack: Stack, tmp_path: Path) -> None:
    async with server(stack, tmp_path, CATRACA_DRAIN_DELAY="60") as here:
        await here.start("api", "housekeeper")
        await until(here.ready)
        here.process.send_signal(SIGTERM)

        async def draining() -> bool:
            async with httpx.AsyncClient(base_url=here.url) as client:
                answer = await client.get("/readyz")
            return answer.status_code == 503 and answer.json()["status"] == "draining"

        await until(draining)
        assert is_listening(here.port)
        async with httpx.AsyncClient(base_url=here.url) as client:
            # A proxy must not use a connection again that the stop will close.
            assert (await client.get("/livez")).headers["connection"] == "close"
        here.process.send_signal(SIGINT)  # a second signal skips the delay
        assert await here.ended() == 0


@pytest.fixture(scope="module")
async def running(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """A supervisor with two workers, shared by tests that kill workers; it must exit with 0."""
    async with server(stack, tmp_path_factory.mktemp("running")) as here:
        await here.start("all", "--workers", "2")
        await until(here.ready)
        await until(lambda: len(here.workers()) == 2)
        yield here
        here.process.send_signal(SIGTERM)
        assert await here.ended() == 0


async def test_killed_worker_is_replaced_without_refused_connections(running: Server) -> None:
    victim = running.workers()[0]
    os.kill(victim, SIGKILL)
    while victim in running.workers() or len(running.workers()) < 2:
        async with httpx.AsyncClient(base_url=running.url, timeout=10) as client:
            assert (await client.get("/livez")).status_code == 200
    assert "SIGKILL" in running.log.read_text()


@pytest.mark.long
async def test_counters_of_ended_workers_stay(running: Server) -> None:
    async def count() -> float:
        async with httpx.AsyncClient(base_url=running.url, timeout=10) as client:
            await client.get("/livez")
            text = (await client.get("/metrics")).text
        lines = [line for line in text.splitlines() if "requests_total{" in line and "livez" in line]
        return float(lines[0].split()[-1])

    before = await count()
    first = running.workers()
    for worker in first:
        os.kill(worker, SIGTERM)
    await until(lambda: len(running.workers()) == 2 and not set(first) & set(running.workers()))
    assert await count() == before + 1


async def test_workers_end_with_a_killed_supervisor(stack: Stack, tmp_path: Path) -> None:
    async with server(stack, tmp_path) as here:
        await here.start("all", "--workers", "2")
        await until(here.ready)
        workers = here.workers()
        here.process.kill()
        await here.ended()
        await until(lambda: not [pid for pid in workers if is_alive(pid)])
        assert not is_listening(here.port)


async def test_crashing_workers_end_the_supervisor_with_a_reason(stack: Stack, tmp_path: Path) -> None:
    async with server(stack, tmp_path) as here:
        await here.start("all", "--workers", "2")
        killed: set[int] = set()

        def gives_up() -> bool:
            for worker in set(here.workers()) - killed:
                os.kill(worker, SIGKILL)
                killed.add(worker)
            return here.process.returncode is not None

        await until(gives_up)
        assert here.process.returncode == 1
        assert "5 times" in here.log.read_text().splitlines()[-1]
        assert not is_listening(here.port)


async def test_schema_of_a_late_database_is_checked(stack: Stack, tmp_path: Path) -> None:
    url = await stack.new_database(f"empty_{uuid4().hex}")
    sockets = tmp_path / "sockets"
    away = url.replace(f"host={stack.folder}/run", f"host={sockets}")
    async with server(stack, tmp_path, CATRACA_DATABASE_URL=away) as here:
        await here.start("api")
        async with httpx.AsyncClient(base_url=here.url, timeout=10) as client:

            async def answers() -> bool:
                try:
                    return (await client.get("/livez")).status_code == 200
                except httpx.TransportError:
                    return False

            await until(answers)
            assert (await client.get("/readyz")).status_code == 503
        sockets.symlink_to(stack.folder / "run")
        async with asyncio.timeout(30):
            assert await here.process.wait() == 1
        (failure,) = [event for event in here.events() if event["event"] == "role_failed"]
        assert failure["role"] == "SchemaWatch"


async def test_outdated_schema_is_refused(stack: Stack, tmp_path: Path) -> None:
    url = await stack.new_database(f"empty_{uuid4().hex}")
    for workers in ("1", "2"):
        async with server(stack, tmp_path, CATRACA_DATABASE_URL=url) as here:
            await here.start("all", "--workers", workers)
            assert await here.ended() in (1, 2)
            assert "catraca migrate" in here.log.read_text()


async def test_unknown_role_is_refused_with_the_list(stack: Stack, tmp_path: Path) -> None:
    async with server(stack, tmp_path) as here:
        await here.start("api", "plumber")
        assert await here.ended() == 2
        (line,) = here.log.read_text().splitlines()
        assert "plumber" in line
        assert "housekeeper" in line
