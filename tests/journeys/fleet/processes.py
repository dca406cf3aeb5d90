"""Two APIs, a relay, a dispatcher and a notifier with short timeouts."""

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import httpx

from catraca.events import TOPOLOGY
from catraca.platform.bus import Transport
from catraca.platform.database.invariants import check_invariants
from catraca.roles.doctor.checkup import RULES
from tests.conftest import free_port
from tests.servers import Stack, private_folder, until
from tests.storms.processes import Fleet, fleet_at, is_ready
from tests.storms.servers import KillableRedis, bus_of, empty_queues
from tests.support.redis_server import redis_program

LINEUP = (("relay",), ("dispatcher",), ("notifier",))
OFFER_SECONDS = 5
# So long that no lock expires during a test: a lock that disappears was released.
LOCK_SECONDS = 600
SETTINGS = {
    # A slow machine must not time out before a lock is set.
    "CATRACA_REDIS_TIMEOUT": "5",
    "CATRACA_LOG_LEVEL": "warning",
    "CATRACA_RATE_LIMIT_ANONYMOUS": "1000000/second",
    "CATRACA_RATE_LIMIT_PRINCIPAL": "1000000/second",
    "CATRACA_DRIVER_RESPONSE_TIMEOUT": str(OFFER_SECONDS),
    "CATRACA_LOCK_TTL": str(LOCK_SECONDS),
    "CATRACA_SEARCH_RETRY_INTERVAL": "1",
    "CATRACA_MAX_ATTEMPTS_PER_SEARCH": "2",
    # Every ride here costs the minimum.
    "CATRACA_TARIFF_MINIMUM_CENTS": "2550",
}
# The two APIs differ in the time limit of searches.
PATIENT, HASTY = {"CATRACA_GLOBAL_MATCHING_TIMEOUT": "5m"}, {"CATRACA_GLOBAL_MATCHING_TIMEOUT": "11"}
HANDLED = {queue.name for queue in TOPOLOGY.queues if queue.role in ("dispatcher", "notifier")}
# A longer wait means a fault.
PATIENCE_SECONDS = 30


@dataclass
class MatchingFleet:
    office: Fleet
    redis: KillableRedis
    bus: Transport
    patient: httpx.AsyncClient
    hasty: httpx.AsyncClient

    async def holder(self, driver_id: UUID) -> UUID | None:
        """The ride for which the driver is locked."""
        held = await self.redis.command("HGET", f"driver:{driver_id}:lock", "holder")
        return UUID(held.decode()) if isinstance(held, bytes) else None

    async def lock_seconds(self, driver_id: UUID) -> float:
        left = await self.redis.command("PTTL", f"driver:{driver_id}:lock")
        assert isinstance(left, int)
        return left / 1000

    async def until_free(self, *driver_ids: UUID) -> None:
        """Wait until these drivers are not locked."""

        async def are_free() -> bool:
            return [await self.holder(one) for one in driver_ids] == [None] * len(driver_ids)

        await self.until(are_free)

    async def until(self, condition: Any) -> Any:
        try:
            return await until(condition, seconds=PATIENCE_SECONDS)
        except TimeoutError:
            raise AssertionError("it never came to that\n" + self.office.complaints()) from None

    async def until_redis_is_back(self) -> None:
        """Wait until the dispatcher has rebuilt the index of drivers."""

        async def is_whole() -> bool:
            return bool(await self.redis.command("EXISTS", "catraca:location:whole"))

        await self.until(is_whole)

    async def is_quiet(self) -> bool:
        """True when every event was published and neither dispatcher nor notifier has a message waiting."""
        async with self.office.database.connection() as db:
            if await db.fetchval("SELECT EXISTS (SELECT FROM outbox)"):
                return False
        depths = await self.bus.depths()
        return not any(depths.get(name) for name in HANDLED)

    async def wrong(self) -> list[str]:
        """Broken invariants, and errors in the processes' logs."""
        verdicts = await check_invariants(self.office.database, RULES)
        broken = [f"{one.rule.name}: {', '.join(one.found)}" for one in verdicts if one.state != "held"]
        return broken + self.office.complaints().splitlines()


@asynccontextmanager
async def matching_fleet(stack: Stack, amqp_url: str | None) -> AsyncIterator[MatchingFleet]:
    """Start on an empty database and empty queues; yields when both APIs are ready. Redis may be killed."""
    folder = private_folder()
    redis = KillableRedis(redis_program(stack), folder)
    async with AsyncExitStack() as ending:
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        ending.push_async_callback(redis.stop)
        await redis.start()
        if amqp_url is not None:
            await empty_queues(amqp_url)
            ending.push_async_callback(empty_queues, amqp_url)
        url = await stack.migrated_database(f"matching_{uuid4().hex[:8]}")
        office = await ending.enter_async_context(
            fleet_at(folder, url, redis.url, amqp_url, lineup=LINEUP, settings=SETTINGS)
        )
        bus = bus_of(office.database, amqp_url)
        ending.push_async_callback(bus.close)
        patient, hasty = [
            await ending.enter_async_context(_api(office, settings)) for settings in (PATIENT, HASTY)
        ]
        for client in (patient, hasty):
            await until(partial(is_ready, client.base_url.port))
        yield MatchingFleet(office, redis, bus, patient, hasty)


@asynccontextmanager
async def _api(office: Fleet, settings: dict[str, str]) -> AsyncIterator[httpx.AsyncClient]:
    """Start an API without waiting until it is ready; yields a client."""
    port = free_port()
    environment = {**office.environment, "CATRACA_PORT": str(port), **settings}
    process = replace(office, environment=environment).start(("api",))
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            yield client
    finally:
        process.kill()
        process.wait()
