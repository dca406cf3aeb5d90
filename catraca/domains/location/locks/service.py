"""Driver locks in Redis: a driver is reserved for a ride for a short time.

They avoid useless offers. The offer's unique index in PostgreSQL decides.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from catraca.domains import rides
from catraca.domains.location.errors import LocksUnavailable
from catraca.domains.location.model import DriverId
from catraca.platform.database import Db, Transact
from catraca.platform.leases import Lease, acquire_lease, acquire_leases, read_holder, release_lease
from catraca.platform.redis_client import RedisAway, RedisClient


def lock_key(driver_id: UUID) -> str:
    return f"driver:{driver_id}:lock"


async def lock_driver(
    redis: RedisClient, transact: Transact, driver_id: DriverId, *, ride_id: UUID, ttl: timedelta
) -> Lease | None:
    """Lock the driver for this ride; None if another ride has the driver. A repeat renews the lock."""
    try:
        lease = await acquire_lease(redis, lock_key(driver_id), holder=str(ride_id), ttl=ttl)
    except RedisAway as away:
        raise LocksUnavailable from away
    if lease is None:
        return None
    # Redis may have lost a lock; PostgreSQL has every offer and ride.
    holds = await transact(lambda db: rides.busy_drivers(db, [driver_id]))
    if driver_id not in holds or holds[driver_id].ride_id == ride_id:
        return lease
    await unlock_driver(redis, driver_id, ride_id=ride_id)
    return None


async def unlock_driver(redis: RedisClient, driver_id: DriverId, *, ride_id: UUID) -> bool:
    """Release this ride's lock; True if it had one. Another ride's lock stays."""
    try:
        return await release_lease(redis, lock_key(driver_id), holder=str(ride_id))
    except RedisAway as away:
        raise LocksUnavailable from away


async def reserve_drivers(
    db: Db, redis: RedisClient, wanted: Mapping[UUID, UUID], *, ttl: timedelta
) -> set[UUID]:
    """Lock each driver for an offer of its ride; return the drivers that no other ride has locked.

    All of them while Redis is down: then the offers' unique index decides, after a wait.
    """
    holders = {lock_key(driver_id): str(ride_id) for driver_id, ride_id in wanted.items()}
    try:
        leases = await acquire_leases(redis, holders, ttl=ttl)
        return {
            driver_id
            for driver_id, lease in zip(wanted, leases, strict=True)
            if lease is not None or await _take_over(db, redis, driver_id, wanted[driver_id], ttl=ttl)
        }
    except RedisAway:
        return set(wanted)


async def _take_over(db: Db, redis: RedisClient, driver_id: UUID, ride_id: UUID, *, ttl: timedelta) -> bool:
    """Lock a driver whose lock outlived its ride; False if that ride still needs the driver."""
    key = lock_key(driver_id)
    holder = await read_holder(redis, key)
    if holder is None or not await _is_left_over(db, holder, driver_id):
        return False
    await release_lease(redis, key, holder=holder)
    return await acquire_lease(redis, key, holder=str(ride_id), ttl=ttl) is not None


async def _is_left_over(db: Db, holder: str, driver_id: UUID) -> bool:
    """True if the holding ride has ended its claim; Redis was down when it released the driver."""
    with suppress(ValueError):
        return not await rides.may_reserve(db, UUID(holder), driver_id)
    return False


async def release_drivers(redis: RedisClient, driver_ids: Collection[UUID], *, ride_id: UUID) -> None:
    """Release this ride's locks on these drivers. While Redis is down, they expire by themselves."""
    if driver_ids:
        with suppress(RedisAway):
            await release_lease(redis, *map(lock_key, driver_ids), holder=str(ride_id))
