"""Links by which others follow a trip: made and revoked by its passenger, and short-lived."""

import hashlib
import re
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains import people, rides
from catraca.domains.location.errors import RideEnded, TooManyShares, TripNotFound
from catraca.domains.location.model import (
    AFTERLIFE,
    LINKS_A_RIDE,
    Share,
    ShareId,
    Trip,
    trip_at_rest,
    trip_under_way,
)
from catraca.domains.location.service.showing import driver_of
from catraca.domains.location.store import shares as store
from catraca.domains.rides import Ride, RideId
from catraca.platform.clock import now
from catraca.platform.database import Db, audit
from catraca.platform.errors import Forbidden
from catraca.platform.ids import new_id
from catraca.platform.redis_client import RedisClient

TOKEN_BYTES: Final = 32
TOKEN_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]{43}")


async def share_trip(db: Db, ride_id: UUID, *, by: UUID, sees_all: bool, ttl: timedelta) -> tuple[Share, str]:
    """A new link with its token, which nobody can be told again. A repeat makes another one."""
    ride = await _seen_ride(db, ride_id, by=by, sees_all=sees_all, lock=True)
    if ride.passenger_id != by:
        raise Forbidden  # operators could read the token
    if not (ride.is_open or ride.is_driven):
        raise RideEnded
    await store.free_places(db, ride.id)
    token = secrets.token_urlsafe(TOKEN_BYTES)
    share = await store.insert_share(
        db,
        ShareId(new_id()),
        ride_id=ride.id,
        passenger_id=ride.passenger_id,
        digest=_digest(token),
        ttl=ttl,
    )
    if share is None:
        raise TooManyShares(most=LINKS_A_RIDE)
    return share, token


async def list_shares(db: Db, ride_id: UUID, *, by: UUID, sees_all: bool) -> Sequence[Share]:
    """The links that work now, oldest first."""
    ride = await _seen_ride(db, ride_id, by=by, sees_all=sees_all)
    if _is_long_over(ride):
        return []
    return await store.live_shares(db, ride.id)


async def revoke_share(db: Db, ride_id: UUID, share_id: UUID, *, by: UUID, sees_all: bool) -> None:
    """The link leads nowhere from now on. Safe to repeat."""
    ride = await _seen_ride(db, ride_id, by=by, sees_all=sees_all)
    if await store.remove_share(db, ride.id, share_id) and ride.passenger_id != by:
        await audit.record(
            db,
            actor_id=by,
            action="ride.share_revoked",
            subject_kind="ride",
            subject_id=ride.id,
            data={"share_id": share_id},
        )


async def read_trip(db: Db, redis: RedisClient, token: str, *, fresh: timedelta) -> Trip:
    """What a link shows to whoever has it."""
    ride_id = await store.ride_behind(db, _digest(token)) if TOKEN_SHAPE.fullmatch(token) else None
    if ride_id is None:
        raise TripNotFound
    ride = (await rides.read_rides(db, [RideId(ride_id)])).get(RideId(ride_id))
    if ride is None or _is_long_over(ride):
        raise TripNotFound
    if not ride.is_driven:
        return trip_at_rest(ride)
    driver_id = ride.accepted_driver_id
    assert driver_id is not None, "somebody drives it"
    parties = await people.get_users(db, [ride.passenger_id, driver_id])
    return trip_under_way(
        ride,
        passenger=parties.get(ride.passenger_id),
        driver=parties.get(driver_id),
        position=await driver_of(db, redis, ride, fresh=fresh),
    )


async def _seen_ride(db: Db, ride_id: UUID, *, by: UUID, sees_all: bool, lock: bool = False) -> Ride:
    """Return the ride to its passenger and to operators. Links are not the driver's."""
    return await rides.read_own_ride(
        db, ride_id, caller_id=by, sees_all=sees_all, only_passenger=True, lock=lock
    )


def _is_long_over(ride: Ride) -> bool:
    return ride.ended_at is not None and now() - ride.ended_at >= AFTERLIFE


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
