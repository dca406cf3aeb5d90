"""HTTP for reading rides."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from catraca.domains.people import UserId
from catraca.domains.rides.model import RideId, Status
from catraca.domains.rides.views import service
from catraca.domains.rides.views.schemas import RideOut, RidePage
from catraca.platform.errors import Forbidden
from catraca.platform.forms import PageCursor, PageLimit
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(route_class=UnitOfWork)


@router.get("/v1/rides", tags=["rides"], summary="List rides", responses=problems(401, 422))
async def list_rides(
    db: OpenDb,
    caller: Caller,
    status: Annotated[list[Status] | None, Query(max_length=20, description="Only in these states.")] = None,
    before: PageCursor = None,
    limit: PageLimit = 50,
) -> RidePage:
    """Returns the caller's own rides, as passenger or driver, newest first; to operators, all rides."""
    views = await service.list_rides(
        db,
        caller_id=UserId(caller.id),
        sees_all=caller.acts_for_others,
        statuses=status,
        before=before,
        limit=limit + 1,
    )
    return RidePage.of(views, limit=limit)


@router.get("/rides/{ride_id}", include_in_schema=False)
@router.get("/v1/rides/{ride_id}", tags=["rides"], summary="Read a ride", responses=problems(401, 404, 422))
async def read_ride(ride_id: UUID, db: OpenDb, caller: Caller) -> RideOut:
    """Returns the ride to its parties and to operators.

    A driver with a live offer sees rounded places, and nothing about the passenger. Also at
    `/rides/{ride_id}`.
    """
    view = await service.view_ride(
        db, RideId(ride_id), caller_id=UserId(caller.id), sees_all=caller.acts_for_others
    )
    return RideOut.of(view)


@router.get("/drivers/{driver_id}/active-ride", response_model=RideOut, include_in_schema=False)
@router.get(
    "/v1/drivers/{driver_id}/active-ride",
    tags=["rides"],
    summary="Read a driver's active ride",
    response_model=RideOut,
    responses={204: {"description": "No active ride"}, **problems(401, 403, 422)},
)
async def read_active_ride(driver_id: UUID, db: OpenDb, caller: Caller) -> RideOut | Response:
    """Returns the ride that the driver has accepted and not finished.

    Also at `/drivers/{driver_id}/active-ride`.
    """
    if driver_id != caller.id and not caller.acts_for_others:
        raise Forbidden
    view = await service.active_ride(db, UserId(driver_id))
    return Response(status_code=204) if view is None else RideOut.of(view)
