"""Real `catraca serve` processes, two of each role, restarted one after another while people arrive."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from uuid import uuid4

from catraca.domains import people
from catraca.events import TOPOLOGY
from catraca.platform.bus.rabbitmq import RabbitMqBus
from catraca.platform.database import Database
from catraca.platform.database.migrations import migrate
from catraca.platform.embedded.children import end_with_parent
from tests.conftest import SECRET
from tests.servers import until
from tests.support.news_room import Process, ended, stop
from tests.support.news_verdicts import NOTHING_LEFT, broken_promises

# Two processes of each.
LINEUP = (("relay",), ("dispatcher", "notifier"), ("housekeeper",)) * 2
ARRIVALS = 4
ARRIVAL_PAUSE_SECONDS = 0.02
# Between two restarts, so many people more have been heard of.
PROGRESS = 20
QUIET_SECONDS = 60

PROMISES = {
    "people's arrival was not told exactly once": """
        SELECT * FROM (SELECT id::text AS id FROM users) u
        FULL JOIN (
            SELECT subject_id AS id, count(*) AS lines FROM audit_log
            WHERE action = 'user.created' GROUP BY 1) a
            USING (id)
        WHERE u.id IS NULL OR lines IS DISTINCT FROM 1""",
    **NOTHING_LEFT,
}


@dataclass
class Fleet:
    database: Database
    environment: dict[str, str]
    log: Path
    lineup: Sequence[tuple[str, ...]] = LINEUP
    processes: list[Process] = field(default_factory=list)
    over: bool = False

    def start(self, roles: tuple[str, ...]) -> Process:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "catraca", "serve", *roles],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stderr=log,
                preexec_fn=end_with_parent(SIGKILL),
            )

    def start_all(self) -> None:
        self.processes = [self.start(roles) for roles in self.lineup]

    def complaints(self) -> str:
        """All but the broker client's own, which calls every look at a broker that is away an error."""
        lines = [line for line in self.log.read_text().splitlines() if '"logger":"aiormq.' not in line]
        return "\n".join(line for line in lines if '"level":"error"' in line or not line.startswith("{"))

    async def arrive_until_over(self) -> None:
        """New people, one after another, each with the news of it."""
        while not self.over:
            await self.database.run(
                lambda db: people.ensure_user(db, uuid4(), roles=["passenger"], driver_approval="automatic")
            )
            await asyncio.sleep(ARRIVAL_PAUSE_SECONDS)

    async def replace(self, place: int, number: Signals) -> None:
        """End the process at this place, by a request or without one, and put a new one there."""
        old = self.processes[place]
        old.send_signal(number)
        expected = 0 if number == SIGTERM else -number
        assert await ended(old) == expected, self.complaints()
        self.processes[place] = self.start(self.lineup[place])

    async def progress(self) -> None:
        """Wait until more arrivals have been told."""
        told = await self._count_told()
        try:
            await until(lambda: self._has_told(told + PROGRESS), seconds=QUIET_SECONDS)
        except TimeoutError:
            raise AssertionError("nothing goes on\n" + self.complaints()) from None

    async def broken(self) -> list[str]:
        async with self.database.connection() as db:
            return await broken_promises(db, PROMISES)

    async def settle(self) -> None:
        """Wait until everything is told and nothing waits; if that does not come, say why."""

        async def is_settled() -> bool:
            return not await self.broken() and not await self._left_in_broker()

        try:
            await until(is_settled, seconds=QUIET_SECONDS)
        except TimeoutError:
            left = [*await self.broken(), *await self._left_in_broker()]
            raise AssertionError("\n".join(left)) from None

    async def _left_in_broker(self) -> list[str]:
        if "CATRACA_AMQP_URL" not in self.environment:
            return []
        bus = RabbitMqBus(self.environment["CATRACA_AMQP_URL"], TOPOLOGY)
        try:
            depths = await bus.depths()
        finally:
            await bus.close()
        return [f"{depth} messages left in {queue}" for queue, depth in depths.items() if depth]

    async def _count_told(self) -> int:
        async with self.database.connection() as db:
            return await db.fetchval("SELECT count(*) FROM audit_log WHERE action = 'user.created'")

    async def _has_told(self, count: int) -> bool:
        return await self._count_told() >= count


async def roll(fleet: Fleet, *, passes: int) -> None:
    """Replace every process in turn, politely or not; nothing is lost, told twice or given up."""
    arriving = [asyncio.create_task(fleet.arrive_until_over()) for _ in range(ARRIVALS)]
    try:
        for number in range(passes * len(fleet.processes)):
            await fleet.progress()
            turn, place = divmod(number, len(fleet.processes))
            await fleet.replace(place, SIGTERM if (place + turn) % 2 == 0 else SIGKILL)
        await fleet.progress()
    finally:
        fleet.over = True
        await asyncio.gather(*arriving)
    await fleet.settle()
    await stop(*fleet.processes)
    assert not (broken := await fleet.broken()), "\n".join(broken)


@asynccontextmanager
async def fleet_at(
    folder: Path,
    database_url: str,
    redis_url: str,
    amqp_url: str | None,
    *,
    lineup: Sequence[tuple[str, ...]] = LINEUP,
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Fleet]:
    """These processes on a migrated database; whatever runs at the end is ended."""
    await migrate(database_url)
    environment = {name: value for name, value in os.environ.items() if name != "PROMETHEUS_MULTIPROC_DIR"}
    environment |= {
        "CATRACA_STATE_DIR": str(folder),
        "CATRACA_DATABASE_URL": database_url,
        "CATRACA_REDIS_URL": redis_url,
        "CATRACA_SECRET": SECRET,
        **({} if amqp_url is None else {"CATRACA_AMQP_URL": amqp_url}),
        **(settings or {}),
    }
    database = await Database.open(database_url)
    fleet = Fleet(database, environment, folder / "fleet.log", lineup)
    try:
        fleet.start_all()
        yield fleet
    finally:
        for process in fleet.processes:
            process.kill()
            process.wait()
        await database.close()
