"""Helpers of the tests of embedded servers."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import redis.asyncio

import catraca
from catraca.platform.embedded import (
    EmbeddedPostgres,
    EmbeddedRedis,
)
from catraca.platform.embedded.leftovers import find_leftovers
from catraca.platform.embedded.postgres import _trace
from tests.servers import as_account, until

REPOSITORY = Path(catraca.__file__).parent.parent
SITE = Path(asyncpg.__file__).parent.parent
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the servers to another account")

# A small Catraca: locks the folder, runs both servers, prints their URLs, ends when its input is closed.
DRIVER = """
import asyncio, json, os, sys
from pathlib import Path
from catraca.platform.embedded import EmbeddedPostgres, EmbeddedRedis, lock_state_dir

async def main():
    state = Path(sys.argv[1])
    lock_state_dir(state)
    postgres, redis = EmbeddedPostgres(state), EmbeddedRedis(state)
    await postgres.start()
    await redis.start()
    found = {"postgres": postgres.pid, "redis": redis.pid, "url": postgres.url, "socket": redis.url}
    print(json.dumps(found), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await redis.stop()
    await postgres.stop()

asyncio.run(main())
"""


class Stage:
    """Starts servers and drivers on folders of one place, and ends them after the test."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.state = place / "state"
        self.messages: list[str] = []
        self._servers: list[EmbeddedPostgres | EmbeddedRedis] = []
        self._processes: list[asyncio.subprocess.Process] = []

    def postgres(self, state: Path | None = None) -> EmbeddedPostgres:
        made = EmbeddedPostgres(state or self.state, on_progress=self.messages.append)
        self._servers.append(made)
        return made

    def redis(self, state: Path | None = None) -> EmbeddedRedis:
        made = EmbeddedRedis(state or self.state, on_progress=self.messages.append)
        self._servers.append(made)
        return made

    async def run(self, *command: str | Path, **options: Any) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, **options)
        self._processes.append(process)
        return process

    async def driver(self, *before: str) -> tuple[asyncio.subprocess.Process, dict[str, Any]]:
        process = await self.run(*before, sys.executable, "-c", DRIVER, self.state)
        return process, await first_line(process)

    async def end(self) -> None:
        for one in self._servers:
            await one.stop()
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.communicate()
        # The servers of a killed driver end by themselves.
        for data in self.place.glob("*/postgres"):
            await until(lambda data=data: not data.exists() or not find_leftovers(_trace(data)))


async def first_line(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout
    line = await asyncio.wait_for(process.stdout.readline(), 30)
    assert line, "the driver ended before its servers answered"
    return json.loads(line)


async def ended_well(process: asyncio.subprocess.Process) -> None:
    await asyncio.wait_for(process.communicate(b""), 30)
    assert process.returncode == 0


async def write_row(url: str, value: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE IF NOT EXISTS kept (value text)")
    await connection.execute("INSERT INTO kept VALUES ($1)", value)
    await connection.close()


async def rows(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return [row["value"] for row in await connection.fetch("SELECT value FROM kept ORDER BY value")]
    finally:
        await connection.close()


async def ask_redis(url: str, *command: str) -> Any:
    client = redis.asyncio.from_url(url, decode_responses=True)
    try:
        return await client.execute_command(*command)
    finally:
        await client.aclose()


def proc(pid: int, name: str = "") -> Path:
    return Path("/proc", str(pid), name)


def runs(pid: int) -> bool:
    try:
        return proc(pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def as_owner_of(folder: Path) -> dict[str, Any]:
    found = folder.stat()
    if found.st_uid == os.geteuid():
        return {}
    return as_account(found.st_uid, found.st_gid)


def permissions(paths: list[Path]) -> dict[Path, tuple[int, int, int]]:
    return {path: (found.st_mode, found.st_uid, found.st_gid) for path in paths for found in [path.lstat()]}
