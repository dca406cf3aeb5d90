"""A private Redis to stop, freeze, fill and restart."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import redis.asyncio

from catraca.platform.redis_client import RedisLimits
from tests.servers import Stack, freeze, private_folder, until

# For tests without timeouts: a busy machine may pause for longer than the usual limit.
PATIENT = RedisLimits(answer_seconds=30, away_seconds=0.05)


class PrivateRedis:
    """The stack's kind of Redis on a Unix socket of its own."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{folder}/redis.sock?db=0"

    async def start(self) -> None:
        options = {"port": "0", "unixsocket": f"{self._folder}/redis.sock", "dir": str(self._folder)}
        options |= {"save": "", "appendonly": "no"}
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        self._process = subprocess.Popen([self._program, *words], stdout=subprocess.DEVNULL)
        await until(self._answers)

    async def stop(self) -> None:
        if self._process is not None:
            self.thaw()
            self._process.terminate()
            await asyncio.to_thread(self._process.wait, 20)
            self._process = None

    def freeze(self) -> None:
        assert self._process
        freeze(self._process.pid)

    def thaw(self) -> None:
        assert self._process
        os.kill(self._process.pid, signal.SIGCONT)

    async def command(self, *words: str | int) -> object:
        client = redis.asyncio.from_url(self.url)
        try:
            return await client.execute_command(*words)
        finally:
            await client.aclose()

    async def _answers(self) -> bool:
        try:
            return bool(await self.command("PING"))
        except redis.ConnectionError:
            return False


def redis_program(stack: Stack) -> str:
    if stack.name == "servers":
        return "/usr/bin/redis-server"
    from catraca.platform.embedded.programs import locate_redis

    programs = locate_redis()
    return str(programs.root / programs.bin / "redis-server")


@asynccontextmanager
async def private_redis(stack: Stack) -> AsyncIterator[PrivateRedis]:
    folder = private_folder()
    server = PrivateRedis(redis_program(stack), folder)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        shutil.rmtree(folder, ignore_errors=True)
