"""`catraca serve` processes that a storm starts, kills and replaces."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM, Signals

import httpx

from catraca.platform.database import Database
from catraca.platform.database.migrations import migrate
from tests.conftest import SECRET
from tests.servers import until
from tests.support import forked
from tests.support.forked import ForkedProcess as Process

# A process that takes longer is stuck.
END_SECONDS = 60


@dataclass
class Fleet:
    database: Database
    environment: dict[str, str]
    log: Path
    lineup: Sequence[tuple[str, ...]]
    processes: list[Process] = field(default_factory=list)

    def start(self, roles: tuple[str, ...]) -> Process:
        return forked.start(forked.CATRACA, "serve", *roles, environment=self.environment, stderr=self.log)

    def start_all(self) -> None:
        self.processes = [self.start(roles) for roles in self.lineup]

    def complaints(self) -> str:
        """Errors and unstructured lines in the log, without those of the broker client."""
        lines = [line for line in self.log.read_text().splitlines() if '"logger":"aiormq.' not in line]
        return "\n".join(line for line in lines if '"level":"error"' in line or not line.startswith("{"))

    async def replace(self, place: int, number: Signals) -> None:
        """End the process at this place with the signal, and start a new one."""
        old = self.processes[place]
        old.send_signal(number)
        expected = 0 if number == SIGTERM else -number
        assert await ended(old) == expected, self.complaints()
        self.processes[place] = self.start(self.lineup[place])


@asynccontextmanager
async def fleet_at(
    folder: Path,
    database_url: str,
    redis_url: str,
    amqp_url: str | None,
    *,
    lineup: Sequence[tuple[str, ...]],
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Fleet]:
    """Start these processes on a migrated database; they are killed at the end."""
    await migrate(database_url)
    environment = {
        **os.environ,
        "CATRACA_STATE_DIR": str(folder),
        "CATRACA_DATABASE_URL": database_url,
        "CATRACA_REDIS_URL": redis_url,
        "CATRACA_SECRET": SECRET,
        **({} if amqp_url is None else {"CATRACA_AMQP_URL": amqp_url}),
        **(settings or {}),
    }
    database = await Database.open(database_url)
    log = folder / "fleet.log"
    log.unlink(missing_ok=True)  # of an earlier fleet on the same servers
    fleet = Fleet(database, environment, log, lineup)
    try:
        fleet.start_all()
        yield fleet
    finally:
        for process in fleet.processes:
            process.kill()
            process.wait()
        await database.close()


async def ended(process: Process) -> int:
    """Wait for the end of the process; returns its exit code."""
    with suppress(TimeoutError):
        await until(lambda: process.poll() is not None, seconds=END_SECONDS)
    assert process.returncode is not None, "the process does not end"
    return process.returncode


async def stop(*processes: Process) -> None:
    """Stop the processes with SIGTERM: each finishes its work and exits with 0."""
    for process in processes:
        process.send_signal(SIGTERM)
    for process in processes:
        code = await ended(process)
        # A process that has not installed its handler yet is ended by the signal.
        assert code in (0, -SIGTERM), f"after SIGTERM it ended with {code}"


async def is_ready(port: int) -> bool:
    try:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
    except httpx.TransportError:
        return False
