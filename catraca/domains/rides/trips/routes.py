"""HTTP for trips."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends

from catraca.domains.people import UserId
from catraca.domains.rides.model import RideId, RideTerms
from catraca.domains.rides.trips import service
from catraca.domains.rides.trips.schemas import CancelRideIn, CompleteIn
from catraca.domains.rides.views.routes import read_ride
from catraca.domains.rides.views.schemas import RideOut
from catraca.domains.rides.views.service import view_of
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, stores_no_response, wired

Terms = Annotated[RideTerms, Depends(wired(RideTerms))]
router = make_router(prefix="/v1/rides/{ride_id}", route_class=UnitOfWork)


@router.post(
    "/arrive", tags=["rides"], summary="Arrive at the pickup", responses=problems(401, 403, 404, 409, 422)
)
@stores_no_response
async def arrive(ride_id: UUID, db: OpenDb, caller: Caller) -> RideOut:
    """From `ACCEPTED` to `ARRIVING`, by the ride's driver. A repeat returns the ride as it is.

    The response names the passenger, so it is not stored: a driver who gave the ride up cannot get it again.
    """
    caller.require("driver")
    await service.arrive(db, RideId(ride_id), by=UserId(caller.id))
    return await read_ride(ride_id, db, caller)


@router.post("/start", tags=["rides"], summary="Start a ride", responses=problems(401, 403, 404, 409, 422))
@stores_no_response
async def start(ride_id: UUID, db: OpenDb, caller: Caller, terms: Terms) -> RideOut:
    """From `ARRIVING` to `STARTED`, by the ride's driver: the passenger is in the car.

    A repeat returns the ride as it is.
    """
    caller.require("driver")
    await service.start(db, RideId(ride_id), by=UserId(caller.id), limits=terms.limits)
    return await read_ride(ride_id, db, caller)


@router.post(
    "/complete", tags=["rides"], summary="Complete a ride", responses=problems(401, 403, 404, 409, 422)
)
async def complete(ride_id: UUID, db: OpenDb, caller: Caller, terms: Terms, body: CompleteIn) -> RideOut:
    """From `STARTED` to `COMPLETED`, by the ride's driver. Sets the final fare and releases the driver.

    A reported distance is charged as far as it is plausible: by the time since the start, and by the pings.
    """
    caller.require("driver")
    await service.complete(
        db,
        RideId(ride_id),
        by=UserId(caller.id),
        tariff=terms.tariff,
        limits=terms.limits,
        distance_meters=body.distance_meters,
    )
    return await read_ride(ride_id, db, caller)


@router.post("/cancel", tags=["rides"], summary="Cancel a ride", responses=problems(401, 404, 409, 422))
async def cancel_ride(ride_id: UUID, body: CancelRideIn, db: OpenDb, caller: Caller, terms: Terms) -> RideOut:
    """Ends the ride. If its driver cancels, a search for another driver starts instead."""
    ride = await service.cancel_ride(
        db,
        RideId(ride_id),
        by=caller.id,
        is_operator=caller.acts_for_others,
        reason=body.reason,
        note=body.note,
        search_timeout=terms.search_timeout,
    )
    return RideOut.of(view_of(ride, UserId(caller.id), sees_all=caller.acts_for_others))
