"""Real processes that handle sign-ups, and the wait until all are handled."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from signal import SIGKILL

from catraca.platform.bus import Transport
from catraca.platform.clock import monotonic_seconds
from tests.conftest import free_port
from tests.journeys.instances import descendants
from tests.servers import until
from tests.storms.checks import failed_checks
from tests.storms.processes import Fleet, is_ready, stop
from tests.storms.servers import StormServers, messages_left
from tests.storms.sign_ups.callers import Callers
from tests.storms.sign_ups.checks import QUIET, broken_by
from tests.storms.sign_ups.ledger import Ledger
from tests.support.forked import run_catraca

LINEUP = (
    ("api", "--workers", "2"),
    ("ingester",),
    ("ingester",),
    ("relay",),
    ("housekeeper", "notifier", "dispatcher"),
)
API, INGESTERS, OTHERS = 0, (1, 2), (0, 3, 4)
SETTINGS = {
    "CATRACA_LOG_LEVEL": "warning",
    "CATRACA_RATE_LIMIT_ANONYMOUS": "1000000/second",
    "CATRACA_RATE_LIMIT_SIGN_UP_ADDRESS": "1000000/second",
    "CATRACA_RATE_LIMIT_SIGN_UP_EMAIL": "1000000/second",
}
# No progress for this long is a fault: a lease takes 5 s, a retry 10 s.
STUCK_SECONDS = 60
LOOK_SECONDS = 0.2
DOCTOR_SECONDS = 120
# How often the processes may stop with returned repeats before the queues must be empty.
DRAINS = 5
COMPLAINTS = 5


@dataclass
class SignUpFleet:
    fleet: Fleet
    callers: Callers
    ledger: Ledger
    bus: Transport
    killed: Counter[str] = field(default_factory=Counter)

    async def kill(self, place: int) -> None:
        """Kill and replace a process; of the API a worker is killed, which its supervisor replaces."""
        if place == API:
            oldest = min(descendants(self.fleet.processes[place].pid))
            os.kill(oldest, SIGKILL)
        else:
            await self.fleet.replace(place, SIGKILL)
        self.killed[LINEUP[place][0]] += 1

    async def settle(self) -> None:
        """Wait until every check passes and nothing is pending; then stop all processes and check again."""
        await self.wait_for(self._is_settled, self._how_far, self._what_is_wrong)
        await self._end_all()
        await self._ask_doctor()
        assert not (wrong := await self._what_is_wrong()), "\n".join(wrong)

    async def wait_for(
        self,
        is_over: Callable[[], Awaitable[bool]],
        how_far: Callable[[], Awaitable[object]],
        what_is_wrong: Callable[[], Awaitable[list[str]]],
    ) -> None:
        """Wait until `is_over` returns True; raise after `STUCK_SECONDS` without progress."""
        seen, since = None, monotonic_seconds()
        while not await is_over():
            if (now := await how_far()) != seen:
                seen, since = now, monotonic_seconds()
            elif monotonic_seconds() - since > STUCK_SECONDS:
                wrong = ["no progress", *await what_is_wrong(), *self._complaints()]
                raise AssertionError("\n".join(wrong))
            await asyncio.sleep(LOOK_SECONDS)

    async def written(self) -> int:
        async with self.fleet.database.connection() as db:
            return await db.fetchval("SELECT count(*) FROM sign_ups")

    def logged_faults(self) -> list[str]:
        """Logged retries and dead letters of messages that were not malformed on purpose."""
        log = self.fleet.log.read_text().splitlines()
        lines = [json.loads(line) for line in log if line.startswith("{") and '"message_' in line]
        poison = {str(message_id) for message_id in self.ledger.poison}
        counts = Counter(
            f"{line['event']} in {line['queue']}: {line['reason']}"
            for line in lines
            if line["event"] in ("message_retried", "message_dead") and line["message_id"] not in poison
        )
        return [f"{count} x {what}" for what, count in counts.items()]

    def _complaints(self) -> list[str]:
        """The last errors in the log, except those about messages."""
        lines = self.fleet.complaints().splitlines()
        return [line for line in lines if '"message_' not in line][-COMPLAINTS:]

    async def _left(self) -> list[str]:
        """Unsent events and ready messages; messages that a consumer holds are not counted."""
        async with self.fleet.database.connection() as db:
            unsent = await failed_checks(db, QUIET)
        return [*unsent, *await messages_left(self.bus)]

    async def _how_far(self) -> object:
        async with self.fleet.database.connection() as db:
            counts = await db.fetchrow(
                "SELECT (SELECT count(*) FROM sign_ups), (SELECT count(*) FROM outbox_sent),"
                " (SELECT count(*) FROM audit_log), (SELECT count(*) FROM dead_letters)"
            )
        return tuple(counts or ()), await self.bus.depths()

    async def _is_settled(self) -> bool:
        return not await self._left() and not await self._what_is_wrong()  # the cheaper check first

    async def _what_is_wrong(self) -> list[str]:
        async with self.fleet.database.connection() as db:
            broken = await broken_by(db, self.ledger)
        return [*broken, *await self._left(), *self.logged_faults()]

    async def _end_all(self) -> None:
        """Stop all processes; repeats that they return to the queues are then consumed."""
        for _ in range(DRAINS):
            await stop(*self.fleet.processes)
            if not await self._left():
                return
            self.fleet.start_all()
            await self.wait_for(self._is_settled, self._how_far, self._what_is_wrong)
        raise AssertionError("queues do not become empty")

    async def _ask_doctor(self) -> None:
        code, output, errors = await run_catraca(
            "doctor", "--invariants", environment=self.fleet.environment, seconds=DOCTOR_SECONDS
        )
        assert code == 0, output + errors


@asynccontextmanager
async def sign_up_fleet(servers: StormServers, settings: Mapping[str, str]) -> AsyncIterator[SignUpFleet]:
    """Start all processes on an empty database and wait until the API is ready."""
    port = free_port()
    chosen = {"CATRACA_PORT": str(port), **SETTINGS, **settings}
    async with servers.processes(LINEUP, chosen) as (fleet, bus):
        await until(lambda: is_ready(port))
        ledger = Ledger()
        yield SignUpFleet(fleet, Callers(port, bus, ledger), ledger, bus)
