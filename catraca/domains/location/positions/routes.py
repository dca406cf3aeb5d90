"""HTTP for the position of a ride's driver."""

from uuid import UUID

from fastapi import Response

from catraca.domains.location.positions.schemas import PositionOut
from catraca.domains.location.positions.service import read_position
from catraca.domains.location.routes import Parts
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1", route_class=UnitOfWork)


@router.get(
    "/rides/{ride_id}/position",
    tags=["location"],
    summary="Read the position of a ride's driver",
    response_model=PositionOut,
    response_model_exclude_none=True,
    responses={204: {"description": "No recent position"}, **problems(401, 404, 409, 422)},
)
async def read_ride_position(
    ride_id: UUID, db: OpenDb, caller: Caller, parts: Parts
) -> PositionOut | Response:
    """For the ride's passenger, its driver and operators, from acceptance to the end of the ride."""
    ping = await read_position(
        db,
        parts.redis,
        ride_id,
        caller_id=caller.id,
        sees_all=caller.acts_for_others,
        fresh=parts.presence_timeout,
    )
    return Response(status_code=204) if ping is None else PositionOut.of(ping)
