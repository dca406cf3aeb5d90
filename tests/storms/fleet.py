"""Processes of a storm: APIs that the callers use, and the other roles behind them."""

import os
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from signal import SIGCONT, SIGKILL
from uuid import UUID, uuid4

from catraca.events import UserCreated
from catraca.platform.bus import Transport
from catraca.platform.database import Database, outbox
from catraca.platform.database.invariants import check_invariants
from catraca.roles.doctor.checkup import RULES
from tests.conftest import free_port
from tests.platform.bus.breakable import Postgres
from tests.servers import freeze, until
from tests.storms.callers import calling, request
from tests.storms.commit_gate import CommitGate, open_gate
from tests.storms.processes import Fleet, ended, is_ready
from tests.storms.rides.checks import broken_by, is_quiet
from tests.storms.rides.ledger import Ledger
from tests.storms.servers import KillableRedis, StormServers, messages_left

OFFICE = ("relay", "dispatcher", "notifier", "housekeeper")
SETTINGS = {
    "CATRACA_LOG_LEVEL": "warning",
    "CATRACA_RATE_LIMIT_ANONYMOUS": "1000000/second",
    "CATRACA_RATE_LIMIT_PRINCIPAL": "1000000/second",
    # No search ends by itself while a storm lasts.
    "CATRACA_GLOBAL_MATCHING_TIMEOUT": "1d",
    # The storms make the offers themselves.
    "CATRACA_OFFERS_AT_ONCE": "0",
}
# A longer wait means a fault: the largest storm ends with some ten thousand events to publish.
QUIET_SECONDS = 300
LAST_NEWS_SECONDS = 20
FILES = 8192
COMPLAINTS = 5


@dataclass
class ApiProcess:
    """A `catraca serve api` process on a fixed port."""

    # A fleet of this process only.
    fleet: Fleet
    port: int

    @property
    def pid(self) -> int:
        return self.fleet.processes[0].pid

    async def start(self) -> None:
        self.fleet.start_all()
        await until(lambda: is_ready(self.port))

    async def kill(self) -> None:
        process = self.fleet.processes[0]
        process.kill()
        await ended(process)

    def pause(self) -> None:
        freeze(self.pid)

    def resume(self) -> None:
        os.kill(self.pid, SIGCONT)


@dataclass
class StormFleet:
    """The APIs that the callers use, and `office`: relay, dispatcher, notifier and housekeeper."""

    office: Fleet
    apis: tuple[ApiProcess, ...]
    postgres: Postgres
    redis: KillableRedis
    bus: Transport
    ledger: Ledger = field(default_factory=Ledger)
    ports: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.ports = tuple(api.port for api in self.apis)

    @property
    def database(self) -> Database:
        return self.office.database

    async def until_redis_is_back(self) -> None:
        """Wait until all APIs use Redis again; `/readyz` also makes them check it."""
        for port in self.ports:
            await until(partial(_sees_redis, port))

    async def new_drivers(self, count: int) -> list[UUID]:
        """Insert approved drivers in one transaction; the API would insert them one by one at first use."""
        ids = [uuid4() for _ in range(count)]
        async with self.database.transaction() as db:
            await db.execute(
                "WITH people AS ("
                "   INSERT INTO users (id, roles) SELECT id, '{driver}' FROM unnest($1::uuid[]) AS id)"
                " INSERT INTO drivers (user_id, approval)"
                " SELECT id, 'approved' FROM unnest($1::uuid[]) AS id",
                ids,
            )
            await outbox.record(db, *(UserCreated(user_id=one, roles=("driver",)) for one in ids))
        return ids

    @asynccontextmanager
    async def gated_api(self) -> AsyncIterator[tuple[ApiProcess, CommitGate]]:
        """A third API, whose every COMMIT can be stopped on its way to PostgreSQL or back."""
        environment = self.office.environment
        async with open_gate(environment["CATRACA_DATABASE_URL"]) as gate:
            api = _api(self.office, CATRACA_DATABASE_URL=gate.url)
            try:
                await api.start()
                yield api, gate
            finally:
                _end(api.fleet)

    async def settle(self, look_further: Callable[[], Awaitable[list[str]]] | None = None) -> None:
        """Wait until nothing is pending, then run all checks and all invariants.

        `look_further` returns further failures.
        """
        try:
            await until(self.is_quiet, seconds=QUIET_SECONDS)
        except TimeoutError:
            left = await messages_left(self.bus)
            wrong = ["work is still pending", *await self.wrong(), *left, self.office.complaints()]
            raise AssertionError("\n".join(wrong)) from None
        wrong: list[str] = []

        async def is_well() -> bool:
            """A broker does not count messages that a consumer holds, so a check may fail for a moment."""
            wrong[:] = [*await self.wrong(), *self.office.complaints().splitlines()]
            if look_further is not None:
                wrong[:0] = await look_further()
            return not wrong

        with suppress(TimeoutError):
            await until(is_well, seconds=LAST_NEWS_SECONDS)
        assert not wrong, "\n".join(wrong)

    async def wrong(self) -> list[str]:
        async with self.database.connection() as db:
            broken = await broken_by(db, self.ledger)
        verdicts = await check_invariants(self.database, RULES)
        return broken + [
            f"{verdict.rule.name}: {verdict.state}, {', '.join(verdict.found)}"
            for verdict in verdicts
            if verdict.state != "held"
        ]

    async def is_quiet(self) -> bool:
        """True when every offer has ended and no event or message is pending."""
        async with self.database.connection() as db:
            if not await is_quiet(db):
                return False
        return not await messages_left(self.bus)


@asynccontextmanager
async def storm_fleet(
    servers: StormServers,
    *,
    apis: int = 2,
    lineup: Sequence[tuple[str, ...]] = (OFFICE,),
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[StormFleet]:
    """Start these processes and APIs on an empty database and wait until all APIs are ready."""
    _allow_many_connections()
    async with servers.processes(lineup, {**SETTINGS, **(settings or {})}) as (office, bus):
        started_apis = tuple(_api(office) for _ in range(apis))
        try:
            for api in started_apis:
                api.fleet.start_all()
            for api in started_apis:
                await until(lambda api=api: is_ready(api.port))
            yield StormFleet(office, started_apis, servers.postgres, servers.redis, bus)
        except AssertionError as error:
            last = office.complaints().splitlines()[-COMPLAINTS:]
            raise AssertionError("\n".join([str(error), *last])) from error
        finally:
            _end(*(api.fleet for api in started_apis))


def _allow_many_connections() -> None:
    """A thousand callers need as many files, and so do the processes that inherit the limit from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))


async def _sees_redis(port: int) -> bool:
    async with calling([port]) as caller:
        return (await caller.ask(request("GET", "/readyz"))).json()["parts"]["redis"] == "up"


def _api(office: Fleet, **settings: str) -> ApiProcess:
    port = free_port()
    environment = office.environment | {"CATRACA_PORT": str(port)} | settings
    return ApiProcess(replace(office, environment=environment, lineup=(("api",),), processes=[]), port)


def _end(*fleets: Fleet) -> None:
    for process in (process for fleet in fleets for process in fleet.processes):
        process.send_signal(SIGKILL)
        process.wait()
