"""The two stacks every test runs on: embedded, and Debian's PostgreSQL and Redis, all private.

RabbitMQ is slow to start, so it is a fixture of its own (`amqp_url`), there only for tests that ask.
"""

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import redis.asyncio

from catraca.platform.database.migrations import migrate
from catraca.platform.embedded.children import end_with_parent

START_SECONDS = 60
TEMPLATE = "template_catraca"
# For tests whose outcome cannot depend on the servers.
on_one_stack = pytest.mark.parametrize("stack", ["servers"], indirect=True)


@dataclass
class Stack:
    """Addresses of running servers, and the processes behind them."""

    name: str
    folder: Path
    database_url: str
    redis_url: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    # The migrated database others are copied from, once there is one.
    template: str = ""

    async def new_database(self, name: str, *, template: str = "template1") -> str:
        """An empty database of its own on this stack's server, or a copy of another; answers its URL."""
        connection = await asyncpg.connect(self.database_url)
        try:
            await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        finally:
            await connection.close()
        return self.database_url.replace("/catraca?", f"/{name}?")

    async def migrated_database(self, name: str) -> str:
        """The same with the schema, copied from one that was migrated once; answers its URL."""
        if not self.template:
            await migrate(await self.new_database(TEMPLATE))
            self.template = TEMPLATE
        return await self.new_database(name, template=self.template)


StartStack = Callable[[Path], Awaitable[tuple[Stack, Callable[[], asyncio.Future[None]]]]]


async def start_embedded(folder: Path) -> tuple[Stack, Callable[[], asyncio.Future[None]]]:
    from catraca.platform.embedded import EmbeddedPostgres, EmbeddedRedis

    postgres, redis_server = EmbeddedPostgres(folder), EmbeddedRedis(folder)
    await asyncio.gather(postgres.start(), redis_server.start())
    stack = Stack("embedded", folder, postgres.url, redis_server.url)

    def stop() -> asyncio.Future[None]:
        with suppress(ProcessLookupError):  # immediate shutdown: the data are thrown away
            os.kill(postgres.pid, signal.SIGQUIT)
        return asyncio.gather(postgres.stop(), redis_server.stop())  # type: ignore[return-value]

    return stack, stop


async def start_debian(folder: Path) -> tuple[Stack, Callable[[], asyncio.Future[None]]]:
    stack = Stack(
        "servers",
        folder,
        database_url=f"postgresql://catraca@/catraca?host={folder}/run",
        redis_url=f"unix://{folder}/run/redis.sock?db=0",
    )
    (folder / "run").mkdir(mode=0o777)
    (folder / "run").chmod(0o777)
    _start_postgres(stack)
    _start_redis(stack)
    await asyncio.gather(until(lambda: _postgres_answers(stack)), until(lambda: _redis_answers(stack)))

    async def stop() -> None:
        for process in stack.processes.values():
            process.send_signal(signal.SIGQUIT if process.args[0].endswith("postgres") else signal.SIGTERM)  # type: ignore[index,union-attr]
        for process in stack.processes.values():
            await asyncio.to_thread(process.wait, 20)

    return stack, lambda: asyncio.ensure_future(stop())


def _start_postgres(stack: Stack) -> None:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    data = stack.folder / "postgres"
    as_user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    data.mkdir(mode=0o700)
    if as_user:
        shutil.chown(data, "postgres", "postgres")
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [programs / "initdb", "-D", data, "-U", "catraca", "-A", "trust", "--locale=C.UTF-8", "-E", "UTF8"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=environment,
        cwd="/",
        **as_user,  # type: ignore[call-overload]
    )
    options = [
        "listen_addresses=",
        f"unix_socket_directories={stack.folder}/run",
        "max_connections=200",
    ]
    with (data / "postgresql.conf").open("a") as settings:
        # Tests create many databases; a visit to each would take as many processes.
        settings.write("autovacuum_naptime = 1h\n")
    stack.processes["postgres"] = subprocess.Popen(
        [
            str(programs / "postgres"),
            "-D",
            str(data),
            *(part for option in options for part in ("-c", option)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd="/",
        preexec_fn=end_with_parent(signal.SIGQUIT),
        **as_user,  # type: ignore[call-overload]
    )


def _start_redis(stack: Stack) -> None:
    stack.processes["redis"] = subprocess.Popen(
        [
            "/usr/bin/redis-server",
            "--port",
            "0",
            "--unixsocket",
            f"{stack.folder}/run/redis.sock",
            "--dir",
            str(stack.folder),
            "--save",
            "",
            "--appendonly",
            "no",
        ],
        stdout=subprocess.DEVNULL,
        preexec_fn=end_with_parent(signal.SIGTERM),
    )


async def _postgres_answers(stack: Stack) -> bool:
    try:
        connection = await asyncpg.connect(stack.database_url.replace("/catraca?", "/postgres?"))
    except (OSError, asyncpg.PostgresError):
        return False
    try:
        if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = 'catraca'"):
            await connection.execute("CREATE DATABASE catraca")
    finally:
        await connection.close()
    return True


async def _redis_answers(stack: Stack) -> bool:
    client = redis.asyncio.from_url(stack.redis_url)
    try:
        return bool(await client.ping())
    except redis.ConnectionError:
        return False
    finally:
        await client.aclose()


def as_account(user: int, group: int) -> dict[str, Any]:
    """Options that start a process as another account. uvloop's processes take no `user` and `group`."""

    def become() -> None:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)

    return {"preexec_fn": become}


def freeze(*pids: int) -> None:
    """Stop processes with SIGSTOP; return when all their threads have stopped.

    A signal takes effect when a thread is next scheduled: until then a process may still answer, or be ended
    by another signal.
    """
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    while not all(is_frozen(pid) for pid in pids):
        time.sleep(0.001)


def is_frozen(pid: int) -> bool:
    """True if every thread has stopped or ended."""
    states: list[str] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            states.append(thread.read_text().rpartition(")")[2].split()[0])
    return not set(states) - set("TtZX")


async def until(condition, *, seconds: float = START_SECONDS):
    """Wait for a condition, sync or async, with a deadline; answers its first true value."""
    async with asyncio.timeout(seconds):
        while True:
            value = condition()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.02)


# Below the range from which the kernel takes the ports of outgoing connections (32768 and up): one of those
# could take a port between the end of one server here and the start of the next on the same port.
_PORTS = iter(random.sample(range(10_000, 32_768), 20_000))


def free_port() -> int:
    """A port that nothing listens on and that this process has not returned before."""
    for port in _PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port is left")


def private_folder() -> Path:
    """A short path (sockets have a limit) that the unprivileged account of a root run can enter."""
    folder = Path(tempfile.mkdtemp(prefix="catraca-"))
    folder.chmod(0o755)
    return folder
