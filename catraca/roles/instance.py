"""One Catraca on this machine: embedded servers where none are configured, and workers with all roles."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from signal import SIGKILL, SIGTERM
from socket import socket
from typing import TYPE_CHECKING

from catraca.platform.clock import monotonic_seconds
from catraca.platform.database.migrations import migrate
from catraca.platform.embedded import (
    EmbeddedFailure,
    EmbeddedPostgres,
    EmbeddedRedis,
    StateFolder,
    lock_state_dir,
)
from catraca.platform.embedded.children import Child, end_with_parent
from catraca.platform.embedded.server import EmbeddedServer
from catraca.roles.listener import callable_address, fetch, open_listener
from catraca.roles.metrics import MetricsFolder
from catraca.roles.runner import Life, all_of, first_of
from catraca.roles.supervisor import Supervisor, how_it_ended
from catraca.roles.worker_log import WorkerLog
from catraca.settings import DEMO_REMEDY, Settings

if TYPE_CHECKING:
    from catraca.roles.demo import DemoCity

Say = Callable[[str], None]

# Stopping may take 15 s in all; the servers need the rest to write everything down.
STOP_SECONDS = 14.0
WORKER_DRAIN_SECONDS = 10.0
LEAST_STOP_SECONDS = 0.5
# The demo's users finish their rides and go offline; then the workers drain.
DEMO_STOP_SECONDS = 3.5
DEMO_KILL_SECONDS = 0.5
READY_SECONDS = 60.0
ASK_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0


class NotReady(Exception):
    """The workers run but do not become ready."""


@dataclass(slots=True, kw_only=True)
class Instance:
    """`run` reports progress to `say`, and calls `ready` when it serves."""

    settings: Settings
    workers: int
    say: Say
    # Gets the settings with the servers' addresses, and the demo city if it is there.
    ready: Callable[[Settings, "DemoCity | None"], None]
    # Whether `catraca demo` runs beside it.
    demo: bool = False
    life: Life = field(default_factory=Life)
    _stop_by: float = 0
    _demo: Child | None = None

    async def run(self) -> None:
        """Run until a signal; then stop the demo, the workers, Redis and PostgreSQL, in this order."""
        settings = self.settings
        with lock_state_dir(settings.process.state_dir) as folder:
            await folder.wait_for_earlier_workers(self.say)
            metrics = MetricsFolder(folder.path)
            listener = open_listener(settings.process.host, settings.process.port)
            metrics.join()
            self.life.handle_signals()
            async with AsyncExitStack() as held:
                try:
                    await first_of(self._live(held, listener, metrics, folder), self.life.stopping.wait())
                    self.say("Stopping: finishing what is in hand (Ctrl-C again hurries)")
                finally:
                    now = asyncio.get_running_loop().time()
                    self._stop_by = now + STOP_SECONDS + settings.process.drain_delay

    async def _live(
        self, held: AsyncExitStack, listener: socket, metrics: MetricsFolder, folder: StateFolder
    ) -> None:
        servers = self._servers(held)
        self.say("Starting " + " and ".join([*(one.title for one in servers.values()), "the workers"]))
        await all_of(*(server.start() for server in servers.values()))
        urls = {f"{name}_url": server.url for name, server in servers.items()}
        settings = self.settings.changed(**urls)
        await self._migrate(settings)
        city = await self._fill_demo_city(settings)
        log = WorkerLog(self.settings.process.state_dir.resolve())
        supervisor = Supervisor(
            ["all"],
            count=self.workers,
            metrics=metrics,
            say=self.say,
            environment={
                "CATRACA_STATE_DIR": str(settings.process.state_dir.resolve()),
                **{f"CATRACA_{name.upper()}": url for name, url in urls.items()},
            },
            listener=listener,
            output=log.fileno(),
            inherited=[folder.workers],
        )
        seconds = WORKER_DRAIN_SECONDS + settings.process.drain_delay
        held.push_async_callback(supervisor.drain, self.life.hurrying, seconds=seconds)
        held.push_async_callback(self._end_demo)
        await first_of(
            supervisor.keep(),
            log.follow(self.say),
            self._tell_when_ready(settings, city),
            *(self._keep(server) for server in servers.values()),
        )

    def _servers(self, held: AsyncExitStack) -> dict[str, EmbeddedServer]:
        """The embedded servers to start. PostgreSQL is registered first, so it stops last."""
        servers: dict[str, EmbeddedServer] = {}
        if self.settings.servers.database_url is None:
            servers["database"] = EmbeddedPostgres(self.settings.process.state_dir, on_progress=self.say)
        if self.settings.servers.redis_url is None:
            servers["redis"] = EmbeddedRedis(self.settings.process.state_dir, on_progress=self.say)
        for server in servers.values():
            held.push_async_callback(self._stop, server)
        return servers

    async def _stop(self, server: EmbeddedServer) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(max(self._stop_by, loop.time() + LEAST_STOP_SECONDS)):
                await server.stop()
        except TimeoutError:
            # It is stopping; killing it would only cost the next start a recovery.
            self.say(f"{server.title} is still writing and will end by itself")

    async def _migrate(self, settings: Settings) -> None:
        assert settings.servers.database_url is not None
        done = await migrate(settings.servers.database_url)
        if done:
            self.say(f"Migrated the database: {' '.join(done)}")

    async def _fill_demo_city(self, settings: Settings) -> "DemoCity | None":
        """Fill an empty database with the demo city; None if demo data are refused or real users exist."""
        # Not of `settings`, which have the address of the embedded database.
        if fault := self.settings.demo_fault():
            if settings.process.environment is None:
                self.say(f"No demo data, because {fault}: {DEMO_REMEDY}")
            return None
        from catraca.platform.database import Database, DatabaseLimits
        from catraca.roles.demo import fill_demo_city

        assert settings.servers.database_url is not None
        database = await Database.open(settings.servers.database_url, limits=DatabaseLimits(connections=1))
        try:
            city = await fill_demo_city(database)
        finally:
            await database.close()
        return city if city.is_here else None

    async def _tell_when_ready(self, settings: Settings, city: "DemoCity | None") -> None:
        address = callable_address(settings.process.host, settings.process.port)
        try:
            async with asyncio.timeout(READY_SECONDS):
                while not await _is_ready(address):  # noqa: ASYNC110 - another process knows
                    await asyncio.sleep(0.2)
        except TimeoutError:
            raise NotReady(f"no worker became ready within {READY_SECONDS:.0f} s; the log says why") from None
        self.ready(settings, city)
        if self.demo:
            await self._run_demo(f"http://{address}")
        await asyncio.Event().wait()

    async def _run_demo(self, url: str) -> None:
        """Run `catraca demo` beside the server; its end is reported and changes nothing else."""
        environment = {**os.environ, "CATRACA_STATE_DIR": str(self.settings.process.state_dir.resolve())}
        process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program, no shell; it takes a moment
            [sys.executable, "-P", "-m", "catraca", "demo", "--url", url],
            env=environment,
            stdin=subprocess.DEVNULL,
            # Standard output is for our own result.
            stdout=sys.stderr.fileno(),
            # Ctrl-C in the terminal must reach this process alone, which then stops things in order.
            start_new_session=True,
            preexec_fn=end_with_parent(SIGTERM),
        )
        self._demo = Child(process)
        self.say("The demo city wakes up")
        code = await self._demo.wait()
        self.say(f"The demo city ended ({how_it_ended(code)}); Catraca goes on serving")

    async def _end_demo(self) -> None:
        if self._demo is not None:
            await first_of(self._demo.end(((SIGTERM, DEMO_STOP_SECONDS),)), self.life.hurrying.wait())
            await self._demo.end(((SIGKILL, DEMO_KILL_SECONDS),))

    async def _keep(self, server: EmbeddedServer) -> None:
        """Restart the server whenever it ends; workers reconnect by themselves."""
        pause_seconds = 0.0
        while True:
            began = monotonic_seconds()
            code = await server.wait()
            if monotonic_seconds() - began > STEADY_SECONDS:
                pause_seconds = 0.0
            self.say(f"{server.title} ended ({how_it_ended(code)}); starting it again")
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(pause_seconds * 2 + 0.5, LONGEST_PAUSE_SECONDS)
            try:
                await server.start()
            except EmbeddedFailure as failure:
                self.say(str(failure))
            else:
                self.say(f"{server.title} runs again")


async def _is_ready(address: str) -> bool:
    answer = await fetch(address, "/readyz", seconds=ASK_SECONDS)
    return b" 200 " in answer.partition(b"\r\n")[0]
