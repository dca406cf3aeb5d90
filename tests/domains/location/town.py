"""A town: an API with a database and a Redis of its own, and drivers; Redis can be taken away from it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import httpx

from catraca.domains.location.presence.jobs import Patrol, PatrolRules
from catraca.platform.clock import now
from catraca.platform.redis_client import RedisAway
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.rides.desk import Desk
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.redis_server import PrivateRedis, private_redis
from tests.support.roles import own_parts

LAT, LNG = -12.9777, -38.5016
# About a hundred metres to the north.
STEP = 0.0009
LONG_AGO = timedelta(minutes=10)


@asynccontextmanager
async def open_town(stack: Stack, settings: Settings) -> AsyncIterator["Town"]:
    async with (
        private_redis(stack) as redis,
        own_parts(stack, settings, redis_url=redis.url) as parts,
        served(parts) as here,
        here.client() as client,
    ):
        yield Town(parts, client, redis, Desk(client, parts.database))


@dataclass
class Town:
    parts: Parts
    api: httpx.AsyncClient
    redis: PrivateRedis
    rides: Desk

    async def clear(self) -> None:
        """Remove all drivers, with a complete index."""
        async with self.parts.database.connection() as db:
            await db.execute("TRUNCATE driver_presence CASCADE")
        await self.redis.command("FLUSHALL")
        await until(self._is_rebuilt)

    async def _is_rebuilt(self) -> bool:
        """On a loaded machine Redis may answer after the client's timeout."""
        try:
            await self.patrol().rebuild_index()
        except RedisAway:
            return False
        return True

    def patrol(self, **rules: timedelta) -> Patrol:
        """A patrol that may run again at once."""
        return Patrol(
            self.parts.redis,
            self.parts.database.run,
            rules=PatrolRules(**rules),
            interval=timedelta(milliseconds=1),
        )

    async def new_driver(self, **position: Any) -> UUID:
        """A new approved driver, online at `spot(**position)`."""
        driver_id = await self.rides.new_driver()
        await self.go(driver_id, online=True, position=spot(**position))
        return driver_id

    async def go(self, driver_id: UUID, *, online: bool, **more: Any) -> httpx.Response:
        answer = await self.try_to_go(driver_id, bearer("driver", driver_id), online=online, **more)
        assert answer.status_code == 200, answer.text
        return answer

    async def try_to_go(self, driver_id: UUID, headers: dict[str, str], **body: Any) -> httpx.Response:
        return await self.api.put(f"/v1/location/drivers/{driver_id}/status", json=body, headers=headers)

    async def ping(self, driver_id: UUID, *pings: dict[str, Any]) -> Any:
        answer = await self.try_to_ping(driver_id, *(pings or (spot(),)))
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def try_to_ping(
        self, driver_id: UUID, *pings: dict[str, Any], headers: dict[str, str] | None = None
    ) -> httpx.Response:
        return await self.api.post(
            f"/v1/location/drivers/{driver_id}/pings",
            json=pings[0] if len(pings) == 1 else list(pings),
            headers=headers or bearer("driver", driver_id),
        )

    async def nearby(self, **query: Any) -> Any:
        answer = await self.api.get(
            "/v1/location/drivers/nearby",
            params={"lat": LAT, "lng": LNG, **query},
            headers=bearer("operator"),
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def nearby_ids(self, **query: Any) -> list[UUID]:
        return [UUID(one["driver_id"]) for one in (await self.nearby(**query))["drivers"]]

    async def lock(self, driver_id: UUID, ride_id: UUID, **more: Any) -> httpx.Response:
        return await self.api.post(
            f"/v1/location/drivers/{driver_id}/lock",
            json={"ride_id": str(ride_id), **more},
            headers=bearer("service"),
        )

    async def unlock(self, driver_id: UUID, ride_id: UUID) -> httpx.Response:
        return await self.api.delete(
            f"/v1/location/drivers/{driver_id}/lock",
            params={"ride_id": str(ride_id)},
            headers=bearer("service"),
        )

    async def events(self, driver_id: UUID) -> list[str]:
        """The driver's location events, by the last part of their routing keys."""
        keys = await self.rides.event_keys(driver_id)
        return [key.removeprefix("location.driver.") for key in keys if key.startswith("location.")]

    async def row(self, driver_id: UUID) -> Any:
        async with self.parts.database.connection() as db:
            return await db.fetchrow("SELECT * FROM driver_presence WHERE driver_id = $1", driver_id)

    async def age(self, driver_id: UUID, column: str, by: timedelta = LONG_AGO) -> None:
        """Move a time in the driver's row into the past."""
        async with self.parts.database.connection() as db:
            await db.execute(
                f"UPDATE driver_presence SET {column} = {column} - $2::interval WHERE driver_id = $1",
                driver_id,
                by,
            )

    async def make_silent(self, driver_id: UUID) -> None:
        """Move the time when the driver was last seen into the past, in both stores."""
        await self.age(driver_id, "seen_at")
        await self.redis.command("ZADD", "catraca:location:seen", "XX", 1, str(driver_id))

    async def drive(self, driver_id: UUID, passenger_id: UUID | None = None, **ride: Any) -> UUID:
        """Have the driver accept a new ride; returns its id."""
        ride_id = await self.rides.request(passenger_id, **ride)
        await self.rides.offer(ride_id, driver_id)
        answer = await self.rides.accept(ride_id, driver_id)
        assert answer.status_code == 200, answer.text
        return ride_id


def spot(steps: float = 0, *, at: datetime | timedelta | None = None, **more: Any) -> dict[str, Any]:
    """A ping `steps` north of the town's middle; a `timedelta` as `at` is from now."""
    moment = now() + at if isinstance(at, timedelta) else at
    return {"lat": LAT + steps * STEP, "lng": LNG} | ({"at": moment.isoformat()} if moment else {}) | more


@asynccontextmanager
async def redis_frozen(town: Town) -> AsyncIterator[None]:
    """Redis accepts connections and does not answer."""
    town.redis.freeze()
    try:
        yield
    finally:
        town.redis.thaw()
        await until(town.parts.redis.is_up)


@asynccontextmanager
async def redis_stopped(town: Town) -> AsyncIterator[None]:
    await town.redis.stop()
    try:
        yield
    finally:
        await town.redis.start()
        await until(town.parts.redis.is_up)


@asynccontextmanager
async def redis_emptied(town: Town) -> AsyncIterator[None]:
    await town.redis.command("FLUSHALL")
    yield
