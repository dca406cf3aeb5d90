"""Links by which other people follow a trip: made and revoked by its passenger, valid for some hours."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains import people, rides
from catraca.domains.location.errors import RideEnded, TooManyShares, TripNotFound
from catraca.domains.location.positions.service import driver_position
from catraca.domains.location.sharing import store
from catraca.domains.location.sharing.model import (
    MAX_SHARES,
    SHOWN_AFTER_END,
    Share,
    SharedTrip,
    ShareId,
    trip_not_under_way,
    trip_under_way,
)
from catraca.domains.rides import Ride, RideId
from catraca.platform.auth import Principal
from catraca.platform.clock import now
from catraca.platform.database import Db, audit
from catraca.platform.errors import Forbidden
from catraca.platform.ids import new_id, new_token, token_digest
from catraca.platform.redis_client import RedisClient

TOKEN_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]{43}")


async def share_trip(db: Db, ride_id: UUID, *, caller: Principal, ttl: timedelta) -> tuple[Share, str]:
    """Make a link; returns it with its token, which is not stored. A repeat makes another link."""
    ride = await _visible_ride(db, ride_id, by=caller.id, sees_all=caller.acts_for_others, lock=True)
    if ride.passenger_id != caller.id:
        raise Forbidden  # The token is for the passenger only.
    if not (ride.is_open or ride.is_driven):
        raise RideEnded
    await store.delete_ended(db, ride.id)
    token = new_token()
    share = await store.insert_share(
        db,
        ShareId(new_id()),
        ride_id=ride.id,
        passenger_id=ride.passenger_id,
        digest=token_digest(token),
        ttl=ttl,
        granted_at=caller.issued_at,
    )
    if share is None:
        raise TooManyShares(most=MAX_SHARES)
    return share, token


async def list_shares(db: Db, ride_id: UUID, *, by: UUID, sees_all: bool) -> Sequence[Share]:
    """Links that work now, oldest first."""
    ride = await _visible_ride(db, ride_id, by=by, sees_all=sees_all)
    if _ended_long_ago(ride):
        return []
    return await store.live_shares(db, ride.id)


async def revoke_share(db: Db, ride_id: UUID, share_id: UUID, *, by: UUID, sees_all: bool) -> None:
    """Delete the link. Safe to repeat."""
    ride = await _visible_ride(db, ride_id, by=by, sees_all=sees_all)
    if await store.delete_share(db, ride.id, share_id) and ride.passenger_id != by:
        await audit.record(
            db,
            actor_id=by,
            action="ride.share_revoked",
            subject_kind="ride",
            subject_id=ride.id,
            data={"share_id": share_id},
        )


async def read_trip(db: Db, redis: RedisClient, token: str, *, fresh: timedelta) -> SharedTrip:
    """Return what the link with this token shows."""
    ride_id = await store.ride_of_link(db, token_digest(token)) if TOKEN_SHAPE.fullmatch(token) else None
    if ride_id is None:
        raise TripNotFound
    ride = (await rides.read_rides(db, [RideId(ride_id)])).get(RideId(ride_id))
    if ride is None or _ended_long_ago(ride):
        raise TripNotFound
    if not ride.is_driven:
        return trip_not_under_way(ride)
    driver_id = ride.accepted_driver_id
    assert driver_id is not None, "a ride under way has a driver"
    parties = await people.get_users(db, [ride.passenger_id, driver_id])
    return trip_under_way(
        ride,
        passenger=parties.get(ride.passenger_id),
        driver=parties.get(driver_id),
        position=await driver_position(db, redis, ride, fresh=fresh),
    )


async def _visible_ride(db: Db, ride_id: UUID, *, by: UUID, sees_all: bool, lock: bool = False) -> Ride:
    """The ride, for its passenger and operators; not for its driver."""
    return await rides.read_own_ride(
        db, ride_id, caller_id=by, sees_all=sees_all, only_passenger=True, lock=lock
    )


def _ended_long_ago(ride: Ride) -> bool:
    return ride.ended_at is not None and now() - ride.ended_at >= SHOWN_AFTER_END
