"""A private RabbitMQ from Debian's package: own folder, own ports, own port mapper, gone with the tests."""

import asyncio
import os
import resource
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiormq

from catraca.platform.embedded.children import end_with_parent
from tests.servers import free_port, freeze

PROGRAMS = Path("/usr/lib/rabbitmq/bin")
# RabbitMQ reserves two files for each quorum queue, and without a free one accepts no connection. The usual
# limit of 1024 is reached by the queues of a few hundred tests.
OPEN_FILES = 16_384
STOP_SECONDS = 20
CTL_SECONDS = 60
# How often the broker checks for consumers that have kept a message past `consumer_timeout`; the default of
# a minute is too long for a test. In Erlang's notation, for `advanced`.
LOOKS_FOR_LATE_CONSUMERS = "[{rabbit, [{channel_tick_interval, 200}]}]."


@dataclass
class RabbitMq:
    """A RabbitMQ node. Start it only when needed: that takes a few seconds and much of a processor.

    `config` is further lines of settings, such as `consumer_timeout = 1000` (milliseconds); `advanced` is
    all of advanced.config. After `stop` or `kill`, `start` brings back the same node: its ports, its data.
    """

    folder: Path
    config: tuple[str, ...] = ()
    advanced: str = "[]."
    port: int = 0
    _mapper_port: int = 0
    _peer_port: int = 0
    _mapper: "subprocess.Popen[bytes] | None" = None
    _server: "subprocess.Popen[bytes] | None" = None
    _environment: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start the node, which ends with the calling thread; `answers` returns True once it serves."""
        if not self.port:
            self.port, self._mapper_port, self._peer_port = (free_port() for _ in range(3))
            self._prepare()
        if self._mapper is None:
            # In the foreground: the server would start a daemon that outlives it.
            command = ["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"]
            self._mapper = self._launch(command)
        self._server = self._launch([str(PROGRAMS / "rabbitmq-server")])

    def _prepare(self) -> None:
        self.folder.mkdir(exist_ok=True)
        listener = f"listeners.tcp.1 = 127.0.0.1:{self.port}"
        (self.folder / "rabbitmq.conf").write_text("\n".join([listener, *self.config]) + "\n")
        (self.folder / "advanced.config").write_text(self.advanced + "\n")
        (self.folder / "plugins").write_text("[].\n")
        (self.folder / "environment").touch()
        self._environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.folder),  # of the Erlang cookie
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"catraca-{os.getpid()}-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._peer_port),
            "RABBITMQ_CONF_ENV_FILE": f"{self.folder}/environment",
            "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq.conf",
            "RABBITMQ_ADVANCED_CONFIG_FILE": f"{self.folder}/advanced.config",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/plugins",
            "RABBITMQ_MNESIA_BASE": f"{self.folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{self.folder}/log",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            # The script then becomes the server instead of waiting for it, so that signals reach it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }

    def _launch(self, command: list[str]) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{Path(command[0]).name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_prepare_child(end_with_parent(signal.SIGKILL)),
            )

    async def answers(self) -> bool:
        if self._server is None or self._server.poll() is not None:
            raise RuntimeError((self.folder / "rabbitmq-server.log").read_text(errors="replace")[-4000:])
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            async with asyncio.timeout(5):
                connection = await aiormq.connect(self.url)
        except (OSError, TimeoutError):
            return False
        await connection.close()
        return True

    async def ctl(self, *arguments: str) -> str:
        """Run rabbitmqctl against this node, such as `ctl("eval", "1 + 1.")`; returns its output."""
        process = await asyncio.create_subprocess_exec(
            str(PROGRAMS / "rabbitmqctl"),
            "--quiet",
            *arguments,
            env=self._environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        async with asyncio.timeout(CTL_SECONDS):
            printed, _ = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"rabbitmqctl {' '.join(arguments)}: {printed.decode(errors='replace')}")
        return printed.decode()

    def kill(self) -> None:
        """Kill the server with SIGKILL; its port mapper stays."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def pause(self) -> None:
        """Freeze the server: connections stay open, and no request is answered."""
        assert self._server is not None
        freeze(self._server.pid)

    def resume(self) -> None:
        assert self._server is not None
        self._server.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Kill the server, then stop: a clean stop takes seconds to write data that are then deleted."""
        self.kill()
        await self.stop()

    async def stop(self) -> None:
        """End the server, then its port mapper."""
        for process in (self._server, self._mapper):
            if process is None:
                continue
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._server = self._mapper = None


def _prepare_child(more: Callable[[], None]) -> Callable[[], None]:
    """For a new process: raise its limit of open files as far as it may, then do `more`."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = OPEN_FILES if most == resource.RLIM_INFINITY else min(OPEN_FILES, most)

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
        more()

    return prepare
