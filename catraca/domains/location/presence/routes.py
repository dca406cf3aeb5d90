"""HTTP for a driver's status."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends

from catraca.domains.location.presence import service
from catraca.domains.location.presence.schemas import DriverStatusIn, DriverStatusOut
from catraca.domains.location.presence.service import PresenceParts
from catraca.domains.location.routes import require_driver
from catraca.platform.clock import now
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired

router = make_router(prefix="/v1/location", route_class=UnitOfWork)


@router.put(
    "/drivers/{driver_id}/status",
    tags=["location"],
    summary="Set a driver online or offline",
    responses=problems(401, 403, 422),
)
async def set_status(
    driver_id: UUID,
    body: DriverStatusIn,
    db: OpenDb,
    caller: Caller,
    parts: Annotated[PresenceParts, Depends(wired(PresenceParts))],
) -> DriverStatusOut:
    """Safe to repeat. Drivers who send no pings for a while are set offline by the server."""
    driver = require_driver(caller, driver_id)
    ping = body.position.to_ping(now()) if body.position else None
    status = await service.set_status(db, parts, driver, online=body.online, ping=ping, by=caller.id)
    return DriverStatusOut.of(driver, status)
