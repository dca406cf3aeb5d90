"""HTTP for driver locks."""

from datetime import timedelta
from uuid import UUID

from catraca.domains.location.locks.schemas import LockIn, LockOut, UnlockOut
from catraca.domains.location.locks.service import lock_driver, unlock_driver
from catraca.domains.location.model import DriverId
from catraca.domains.location.routes import OperatorOrService, Parts
from catraca.platform.http.problems import problems
from catraca.platform.http.route import InTransaction, Staged, make_router, stores_no_response

# Locks are in Redis: no transaction is open during the call to it, and repeating it is safe.
router = make_router(prefix="/v1/location", route_class=Staged)


@router.post(
    "/drivers/{driver_id}/lock",
    tags=["location"],
    summary="Lock a driver for a ride",
    response_model_exclude_none=True,
    responses=problems(401, 403, 422, 503),
)
@stores_no_response
async def lock(
    driver_id: UUID, body: LockIn, caller: OperatorOrService, transact: InTransaction, parts: Parts
) -> LockOut:
    """Locks the driver for a limited time. The same ride again renews the lock."""
    ttl = parts.lock_ttl if body.ttl_seconds is None else timedelta(seconds=body.ttl_seconds)
    lease = await lock_driver(parts.redis, transact, DriverId(driver_id), ride_id=body.ride_id, ttl=ttl)
    return LockOut.of(lease)


@router.delete(
    "/drivers/{driver_id}/lock",
    tags=["location"],
    summary="Release a driver's lock",
    responses=problems(401, 403, 422, 503),
)
@stores_no_response
async def unlock(driver_id: UUID, ride_id: UUID, caller: OperatorOrService, parts: Parts) -> UnlockOut:
    """Releases this ride's lock; another ride's lock stays."""
    return UnlockOut(released=await unlock_driver(parts.redis, DriverId(driver_id), ride_id=ride_id))
