"""HTTP for requesting a ride."""

from typing import Annotated

from fastapi import Depends

from catraca.domains.people import UserId
from catraca.domains.rides.model import RideTerms
from catraca.domains.rides.requests import service
from catraca.domains.rides.requests.schemas import RideIn
from catraca.domains.rides.views.schemas import RideOut
from catraca.domains.rides.views.service import RideView
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired

router = make_router(route_class=UnitOfWork)


@router.post(
    "/v1/rides",
    tags=["rides"],
    summary="Request a ride",
    status_code=201,
    responses=problems(401, 403, 409, 422, 429),
)
async def request_ride(
    body: RideIn, db: OpenDb, caller: Caller, terms: Annotated[RideTerms, Depends(wired(RideTerms))]
) -> RideOut:
    """Creates a ride and searches for a driver. A passenger has one open ride at a time.

    After several cancellations by the passenger within an hour the next request has to wait: 429, each time
    for longer.
    """
    caller.require("passenger")
    ride = await service.request_ride(
        db,
        body.to_request(),
        passenger_id=UserId(caller.id),
        tariff=terms.tariff,
        search_timeout=terms.search_timeout,
        cancellations=terms.cancellations,
    )
    return RideOut.of(RideView(ride=ride, part="passenger"))
