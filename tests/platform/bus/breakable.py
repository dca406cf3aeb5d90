"""Private servers to kill, freeze and start again."""

import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGQUIT
from typing import Protocol

import asyncpg

from catraca.platform.embedded import EmbeddedPostgres
from catraca.platform.embedded.children import end_with_parent
from tests.journeys.instances import descendants
from tests.rabbitmq import LOOKS_FOR_LATE_CONSUMERS, RabbitMq
from tests.servers import Stack, freeze, start_debian, until


class Breakable(Protocol):
    @property
    def url(self) -> str: ...

    async def kill(self) -> None: ...
    async def start(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Postgres:
    """A PostgreSQL server: freezing and killing it includes its backends, which are processes too."""

    url: str
    pid: int
    _frozen: tuple[int, ...] = ()

    def pause(self) -> None:
        self._frozen = (self.pid, *descendants(self.pid))
        freeze(*self._frozen)

    def resume(self) -> None:
        self._signal(*self._frozen, signal=SIGCONT)

    async def kill(self) -> None:
        # Stopped first: a process forked after the others were listed would survive and keep shared memory.
        freeze(self.pid)
        self._signal(self.pid, *descendants(self.pid), signal=SIGKILL)

    def _signal(self, *pids: int, signal: int) -> None:
        for pid in pids:
            try:
                os.kill(pid, signal)
            except ProcessLookupError:
                continue


class Embedded(Postgres):
    def __init__(self, folder: Path) -> None:
        self._server = EmbeddedPostgres(folder)

    async def start(self) -> None:
        await self._server.start()
        self.url, self.pid = self._server.url, self._server.pid

    async def kill(self) -> None:
        await super().kill()
        await self._server.wait()

    async def stop(self) -> None:
        await self._server.stop()


class Debian(Postgres):
    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.url, self.pid = stack.database_url, stack.processes["postgres"].pid

    async def kill(self) -> None:
        await super().kill()
        self._stack.processes["postgres"].wait()

    async def start(self) -> None:
        self._launch()
        await until(self._answers)

    def _launch(self) -> None:
        command = self._stack.processes["postgres"].args
        account = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        server = subprocess.Popen(
            command,  # type: ignore[arg-type]
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            preexec_fn=end_with_parent(SIGQUIT),
            **account,  # type: ignore[call-overload]
        )
        self._stack.processes["postgres"], self.pid = server, server.pid

    async def _answers(self) -> bool:
        if self._stack.processes["postgres"].poll() is not None:
            self._launch()  # it refuses to start until all killed processes are gone
        try:
            connection = await asyncpg.connect(self.url)
        except (OSError, asyncpg.PostgresError):
            return False
        await connection.close()
        return True


class Broker:
    """RabbitMQ with a consumer timeout of one second."""

    def __init__(self, folder: Path) -> None:
        self._server = RabbitMq(
            folder / "rabbitmq", config=("consumer_timeout = 1000",), advanced=LOOKS_FOR_LATE_CONSUMERS
        )
        self.pause, self.resume, self.stop = self._server.pause, self._server.resume, self._server.end

    @property
    def url(self) -> str:
        return self._server.url

    async def start(self) -> None:
        self._server.start()
        await until(self._server.answers)

    async def kill(self) -> None:
        self._server.kill()


@asynccontextmanager
async def debian(folder: Path) -> AsyncIterator[Debian]:
    stack, stop = await start_debian(folder)
    try:
        yield Debian(stack)
    finally:
        await stop()


@asynccontextmanager
async def started(server: Embedded | Broker) -> AsyncIterator[Embedded | Broker]:
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
