"""Locks: a driver held for a ride, for a while. What holds a driver for good is an offer in PostgreSQL."""

from datetime import timedelta
from uuid import UUID

from catraca.domains import rides
from catraca.domains.location.errors import LocksUnavailable
from catraca.domains.location.model import DriverId
from catraca.domains.location.store.index import lock_key
from catraca.platform.database import Transact
from catraca.platform.leases import Lease, acquire_lease, release_lease
from catraca.platform.redis_client import RedisAway, RedisClient


async def lock_driver(
    redis: RedisClient, transact: Transact, driver_id: DriverId, *, ride_id: UUID, ttl: timedelta
) -> Lease | None:
    """Hold the driver for this ride; None when another does. Safe to repeat: the same ride renews."""
    try:
        lease = await acquire_lease(redis, lock_key(driver_id), holder=str(ride_id), ttl=ttl)
    except RedisAway as away:
        raise LocksUnavailable from away
    if lease is None:
        return None
    # Redis may have forgotten a lock; an offer or a ride is not forgotten.
    holds = await transact(lambda db: rides.busy_drivers(db, [driver_id]))
    if driver_id not in holds or holds[driver_id].ride_id == ride_id:
        return lease
    await unlock_driver(redis, driver_id, ride_id=ride_id)
    return None


async def unlock_driver(redis: RedisClient, driver_id: DriverId, *, ride_id: UUID) -> bool:
    """Let go of what this ride holds; whether it held it. Another ride's lock stays."""
    try:
        return await release_lease(redis, lock_key(driver_id), holder=str(ride_id))
    except RedisAway as away:
        raise LocksUnavailable from away
