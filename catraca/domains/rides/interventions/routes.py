"""HTTP for operators who end a ride."""

from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides.interventions import service
from catraca.domains.rides.interventions.schemas import EndRideIn
from catraca.domains.rides.model import RideId
from catraca.domains.rides.views.schemas import RideOut
from catraca.domains.rides.views.service import view_of
from catraca.platform.errors import Forbidden
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router

router = make_router(prefix="/v1/rides/{ride_id}", route_class=UnitOfWork)


@router.post(
    "/end", tags=["rides"], summary="End a ride as an operator", responses=problems(401, 403, 404, 409, 422)
)
async def end_ride(ride_id: UUID, body: EndRideIn, db: OpenDb, caller: Caller) -> RideOut:
    """Completes or cancels a ride that its driver does not end, also a started one. Audited.

    Releases the driver and notifies both parties. A repeat returns the ride.
    """
    if not caller.acts_for_others:
        raise Forbidden
    ride = await service.end_ride(
        db,
        RideId(ride_id),
        outcome=body.outcome,
        reason=body.reason,
        fare_cents=body.fare_cents,
        by=caller.id,
    )
    return RideOut.of(view_of(ride, UserId(caller.id), sees_all=True))
