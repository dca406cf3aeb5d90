"""The gate: a hint in Redis that a ride is taken. It never refuses; it only steers likely losers aside."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from catraca.domains.rides.model import RideId
from catraca.platform.redis_client import Client, RedisClient

HINT_SECONDS = 3600


def accepted_by_key(ride_id: UUID) -> str:
    return f"ride:{ride_id}:accepted_by"


async def seem_taken(redis: RedisClient, ride_ids: Sequence[RideId]) -> list[bool]:
    """Whether somebody seems to have each of these rides."""

    async def look(client: Client) -> list[bytes | None]:
        return await client.mget([accepted_by_key(ride_id) for ride_id in ride_ids])

    return [value is not None for value in await redis.run(look)]


async def hint_taken(redis: RedisClient, drivers: Mapping[RideId, UUID]) -> None:
    async def hint(client: Client) -> None:
        pipeline = client.pipeline(transaction=False)
        for ride_id, driver_id in drivers.items():
            pipeline.set(accepted_by_key(ride_id), str(driver_id), ex=HINT_SECONDS)
        await pipeline.execute()

    await redis.run(hint)


async def hint_open(redis: RedisClient, ride_id: RideId) -> None:
    async def hint(client: Client) -> None:
        await client.delete(accepted_by_key(ride_id))

    await redis.run(hint)
