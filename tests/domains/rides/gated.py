"""A desk with a Redis of its own behind it."""

from dataclasses import dataclass
from uuid import UUID

from catraca.domains.rides.acceptance.service import STEERED
from catraca.domains.rides.acceptance.store import accepted_by_key
from catraca.platform.redis_client import RedisClient
from tests.domains.rides.desk import Desk
from tests.servers import until
from tests.support.redis_server import PrivateRedis


@dataclass
class GatedDesk(Desk):
    server: PrivateRedis
    redis: RedisClient

    async def gate_says(self, ride_id: UUID) -> str | None:
        """Who has the ride, as far as the gate knows."""
        value = await self.server.command("GET", accepted_by_key(ride_id))
        return value.decode() if isinstance(value, bytes) else None

    async def make_gate_say(self, ride_id: UUID, driver_id: UUID) -> None:
        await self.server.command("SET", accepted_by_key(ride_id), str(driver_id))

    async def gate_knows(self, ride_id: UUID) -> None:
        """Wait for the hint: it is given after the answer."""
        await until(lambda: self.gate_says(ride_id))

    async def redis_is_back(self) -> None:
        await until(self.redis.is_up)


def steered(way: str) -> float:
    """How many attempts the gate has sent this way so far."""
    return STEERED.labels(way)._value.get()
