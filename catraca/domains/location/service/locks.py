"""Locks: a driver held for a ride, for a while. What holds a driver for good is an offer in PostgreSQL."""

from collections.abc import Collection
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from catraca.domains import rides
from catraca.domains.location.errors import LocksUnavailable
from catraca.domains.location.model import DriverId
from catraca.domains.location.store.index import lock_key
from catraca.platform.database import Db, Transact
from catraca.platform.leases import Lease, acquire_lease, read_holder, release_lease
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


async def take_driver(db: Db, redis: RedisClient, driver_id: UUID, *, ride_id: UUID, ttl: timedelta) -> bool:
    """Hold the driver for an offer of this ride, unless another ride is about to make one.

    Without Redis everybody may try: the offers' unique index decides, after a wait.
    """
    key = lock_key(driver_id)
    try:
        if await acquire_lease(redis, key, holder=str(ride_id), ttl=ttl) is not None:
            return True
        holder = await read_holder(redis, key)
        if holder is None or not await _is_left_over(db, holder, driver_id):
            return False
        await release_lease(redis, key, holder=holder)
        return await acquire_lease(redis, key, holder=str(ride_id), ttl=ttl) is not None
    except RedisAway:
        return True


async def _is_left_over(db: Db, holder: str, driver_id: UUID) -> bool:
    """Whether that ride cannot have the driver any more: Redis was away when it was to let go."""
    with suppress(ValueError):
        return not await rides.may_reserve(db, UUID(holder), driver_id)
    return False


async def let_go(redis: RedisClient, driver_ids: Collection[UUID], *, ride_id: UUID) -> None:
    """The ride wants none of these any more. Should Redis be away, the locks end by themselves."""
    if driver_ids:
        with suppress(RedisAway):
            await release_lease(redis, *map(lock_key, driver_ids), holder=str(ride_id))
