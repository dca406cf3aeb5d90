"""A desk whose API has a Redis of its own."""

from dataclasses import dataclass
from uuid import UUID

from catraca.domains.rides.acceptance.service import STEERED
from catraca.domains.rides.acceptance.store import accepted_by_key
from catraca.platform.redis_client import RedisClient
from tests.domains.rides.desk import Desk
from tests.servers import until
from tests.support.redis_server import PrivateRedis


@dataclass
class HintDesk(Desk):
    server: PrivateRedis
    redis: RedisClient

    async def read_hint(self, ride_id: UUID) -> str | None:
        """The driver in the ride's hint."""
        value = await self.server.command("GET", accepted_by_key(ride_id))
        return value.decode() if isinstance(value, bytes) else None

    async def set_hint(self, ride_id: UUID, driver_id: UUID) -> None:
        await self.server.command("SET", accepted_by_key(ride_id), str(driver_id))

    async def until_hinted(self, ride_id: UUID) -> None:
        """Wait for the hint, which is set after the answer."""
        await until(lambda: self.read_hint(ride_id))

    async def redis_is_back(self) -> None:
        await until(self.redis.is_up)


def steered(way: str) -> float:
    """The number of attempts that went this way so far."""
    return STEERED.labels(way)._value.get()
