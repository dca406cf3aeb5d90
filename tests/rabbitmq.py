"""A private RabbitMQ from Debian's package: own folder, own ports, own port mapper, gone with the tests."""

import asyncio
import os
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import aio_pika

from catraca.platform.embedded.children import end_with_parent

PROGRAMS = Path("/usr/lib/rabbitmq/bin")
STOP_SECONDS = 20


@dataclass
class RabbitMq:
    """Start it when a test asks: it takes a few seconds and a good part of a processor."""

    folder: Path
    port: int = 0
    processes: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Launch; `answers` tells when it serves. From the main thread, with whose end it ends."""
        self.folder.mkdir(exist_ok=True)
        self.port, mapper_port, peer_port = _free_ports(3)
        (self.folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        (self.folder / "plugins").write_text("[].\n")
        (self.folder / "environment").touch()
        environment = {
            "PATH": os.environ["PATH"],
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.folder),  # of the Erlang cookie
            "ERL_EPMD_PORT": str(mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"catraca-{os.getpid()}-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(peer_port),
            "RABBITMQ_CONF_ENV_FILE": f"{self.folder}/environment",
            "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/plugins",
            "RABBITMQ_MNESIA_BASE": f"{self.folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{self.folder}/log",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            # The script then becomes the server instead of waiting for it, so that signals reach it.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        # In the foreground, before the server would start one that stays behind.
        self._launch(["epmd", "-port", str(mapper_port), "-address", "127.0.0.1"], environment)
        self._launch([str(PROGRAMS / "rabbitmq-server")], environment)

    def _launch(self, command: list[str], environment: dict[str, str]) -> None:
        with (self.folder / f"{Path(command[0]).name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_parent(signal.SIGKILL),
            )
        self.processes.append(process)

    async def answers(self) -> bool:
        if any(process.poll() is not None for process in self.processes):
            raise RuntimeError((self.folder / "rabbitmq-server.log").read_text(errors="replace")[-4000:])
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            connection = await aio_pika.connect(self.url, timeout=5)
        except OSError:
            return False
        await connection.close()
        return True

    async def stop(self) -> None:
        """End the server, then its port mapper."""
        for process in reversed(self.processes):
            process.terminate()
            try:
                await asyncio.to_thread(process.wait, STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
