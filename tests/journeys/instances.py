"""Real `catraca up` processes in private state folders, and the processes behind them."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx

from catraca.platform.embedded.running_servers import find_running
from tests.conftest import SECRET, bearer, free_port
from tests.servers import private_folder, until

START_SECONDS = 60
# Beyond this it hangs.
STOP_SECONDS = 60
# Other variables of the tests' environment must not reach the instance.
KEPT = ("PATH", "HOME", "LANG", "VIRTUAL_ENV", "TMPDIR", "PYTHONPATH")


@dataclass
class Instance:
    """A state folder and a port, and the `catraca up` process that uses them."""

    folder: Path
    port: int = field(default_factory=free_port)
    settings: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    python: str = sys.executable
    process: asyncio.subprocess.Process | None = None
    ready: dict[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def database_url(self) -> str:
        found = find_running(self.state).database_url
        assert found is not None
        return found

    def environment(self) -> dict[str, str]:
        return {
            **{name: os.environ[name] for name in KEPT if name in os.environ},
            "CATRACA_STATE_DIR": str(self.state),
            "CATRACA_PORT": str(self.port),
            "CATRACA_SECRET": SECRET,
            "CATRACA_WORKERS": "1",
            "CATRACA_RATE_LIMIT_ANONYMOUS": "100000/minute",
            "CATRACA_RATE_LIMIT_PRINCIPAL": "100000/minute",
            **self.settings,
        }

    async def command(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start `catraca ...` in this instance's environment."""
        options = {**self.options, "env": self.environment() | self.options.get("env", {})}
        return await asyncio.create_subprocess_exec(
            self.python,
            "-m",
            "catraca",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            **options,
        )

    async def output(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command to its end: exit code, output, errors."""
        process = await self.command(*arguments)
        async with asyncio.timeout(START_SECONDS):
            output, errors = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode(), errors.decode()

    async def start(self, *arguments: str) -> dict[str, Any]:
        """Run `catraca up` and return its ready message."""
        self.process = await self.command("up", "--json", *arguments)
        assert self.process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await self.process.stdout.readline()
            if not line:
                _, errors = await self.process.communicate()
                raise AssertionError(errors.decode())
        self.ready = json.loads(line)
        return self.ready

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and wait; returns the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        assert self.process is not None
        async with asyncio.timeout(STOP_SECONDS):
            await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode

    def workers(self) -> list[int]:
        return [pid for pid in self._children() if b"\0serve\0" in _command(pid)]

    def postgres(self) -> int:
        (found,) = [pid for pid in self._children() if b"/bin/postgres\0" in _command(pid)]
        return found

    def redis(self) -> int:
        (found,) = [pid for pid in self._children() if b"/redis-server\0" in _command(pid)]
        return found

    def has_another(self, part: str, than: int) -> bool:
        """True if a new process runs in place of that one."""
        try:
            return getattr(self, part)() != than
        except ValueError:  # no process at the moment, or two
            return False

    def family(self) -> list[int]:
        """`catraca up` and everything below it, parents first."""
        assert self.process is not None
        return [self.process.pid, *descendants(self.process.pid)]

    def _children(self) -> list[int]:
        assert self.process is not None
        return [pid for pid in descendants(self.process.pid) if parent_of(pid) == self.process.pid]

    def client(self, sub: UUID | None = None, role: str = "passenger") -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, headers=bearer(role, sub or uuid4()), timeout=30)

    async def write_name(self, name: str) -> UUID:
        """Create a user with this name over HTTP; returns the id."""
        sub = uuid4()
        async with self.client(sub) as client:
            answer = await client.patch("/v1/me", json={"name": name})
        assert answer.status_code == 200, answer.text
        return sub

    async def read_name(self, sub: UUID) -> str | None:
        async with self.client(sub) as client:
            answer = await until(partial(_answered, client))
        return answer.json()["name"]

    def complaints(self) -> str:
        """The errors in the workers' log, for a test to show when it fails."""
        lines = (self.state / "log/catraca.log").read_text().splitlines()
        return "\n".join(line for line in lines if '"level":"error"' in line or not line.startswith("{"))

    async def query(self, statement: str) -> Any:
        connection = await asyncpg.connect(self.database_url, timeout=10)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()


@asynccontextmanager
async def instance(**settings: str) -> AsyncIterator[Instance]:
    """A new state folder and port. Processes that still run at the end of the block are killed."""
    folder = private_folder()
    found = Instance(folder, settings=settings)
    try:
        yield found
    finally:
        if found.process is not None and found.process.returncode is None:
            family = found.family()
            found.process.kill()
            await found.process.communicate()
            await until(lambda: not [pid for pid in family if is_alive(pid)])
        shutil.rmtree(folder, ignore_errors=True)


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := parent_of(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        below = children.get(waiting.pop(0), [])
        found += below
        waiting += below
    return found


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError):
        return None


def is_alive(pid: int) -> bool:
    return _state(pid) not in "ZX"


def _state(pid: int) -> str:
    """The process's state letter as in proc(5); X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _answered(client: httpx.AsyncClient) -> httpx.Response | None:
    """The caller's profile; None on 503, which asks for a retry."""
    answer = await client.get("/v1/me")
    if answer.status_code == 503:
        return None
    assert answer.status_code == 200, answer.text
    return answer


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
