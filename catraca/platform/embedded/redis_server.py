"""The embedded Redis. It holds no facts: data that cannot be loaded are moved aside, and it starts empty."""

import asyncio
import shutil
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import ClassVar

from catraca.platform.embedded.children import POLL_SECONDS, Steps
from catraca.platform.embedded.errors import EmbeddedServerFailed
from catraca.platform.embedded.folders import Home, own_folder
from catraca.platform.embedded.leftovers import Trace
from catraca.platform.embedded.programs import bring_within_reach, locate_redis
from catraca.platform.embedded.server import EmbeddedServer

SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "daemonize": "no",
    # To standard output, which is the log file that Catraca opened.
    "logfile": "",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "aof-load-truncated": "yes",
    "save": "",
    # A full Redis refuses writes, and Catraca works without it; eviction would lose leases silently.
    "maxmemory": "1gb",
    "maxmemory-policy": "noeviction",
    # The folder must stay in its command line.
    "set-proc-title": "no",
}


class EmbeddedRedis(EmbeddedServer):
    """Redis on `<state_dir>/redis`, on a Unix socket that only this user can open."""

    title: ClassVar[str] = "Redis"
    log_name: ClassVar[str] = "redis.log"
    dies_by = SIGTERM
    steps: ClassVar[Steps] = ((SIGTERM, 8.0), (SIGKILL, 5.0))

    async def _bring_up(self, home: Home, limit: asyncio.Timeout) -> None:
        programs = bring_within_reach(locate_redis(), home, self._say)
        data = own_folder(home.data("redis") or home.base / "redis", home.account)
        home.show("redis", self._say)
        await self._take_over(_trace(data))
        socket = self._hold_run_folder(home) / "redis.sock"
        settings = SETTINGS | {"dir": str(data), "unixsocket": str(socket)}
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        command = [str(programs / "redis-server"), *options]
        try:
            await self._serve(command, home, data, socket)
        except EmbeddedServerFailed:
            if not any(data.iterdir()):
                raise
            await self._serve_without_old_data(command, home, data, socket)
        self._url = f"unix://{socket}?db=0"

    async def _serve(self, command: list[str], home: Home, data: Path, socket: Path) -> None:
        _remove_stale_files(data, socket)
        self._launch(command, home)
        while not await _answers(socket):
            self._ensure_alive()
            await asyncio.sleep(POLL_SECONDS)

    async def _serve_without_old_data(self, command: list[str], home: Home, data: Path, socket: Path) -> None:
        aside = _set_aside(data)
        await self._take_over(_trace(own_folder(data, home.account)))
        try:
            await self._serve(command, home, data, socket)
        except EmbeddedServerFailed:
            # The data were not the cause.
            shutil.rmtree(data)
            aside.rename(data)
            raise
        self._say(f"Redis could not load its data: they were set aside in {aside}, and it begins empty")


def _remove_stale_files(data: Path, socket: Path) -> None:
    socket.unlink(missing_ok=True)
    # Left by an interrupted rewrite of its file.
    for unfinished in data.glob("temp-*"):
        unfinished.unlink()


def _set_aside(data: Path) -> Path:
    aside = data.with_name(f"{data.name}.broken-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    return data.rename(aside)


def _trace(data: Path) -> Trace:
    return Trace("redis-server", data, str(data))


async def _answers(socket: Path) -> bool:
    """True if it is ready: while it loads its data, it answers every command with an error."""
    try:
        reader, writer = await asyncio.open_unix_connection(str(socket))
    except (FileNotFoundError, ConnectionError):
        return False
    try:
        writer.write(b"PING\r\n")
        return await reader.readline() == b"+PONG\r\n"
    except ConnectionError:
        return False
    finally:
        writer.close()
