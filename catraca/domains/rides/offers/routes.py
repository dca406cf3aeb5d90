"""HTTP for offers."""

from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends

from catraca.domains.people import UserId
from catraca.domains.rides.model import RideId, RideTerms
from catraca.domains.rides.offers import service
from catraca.domains.rides.offers.schemas import OffersIn, OffersOut, RejectIn, RideOfferOut
from catraca.platform.auth import Principal
from catraca.platform.database import audit
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.route import OpenDb, UnitOfWork, make_router, wired

router = make_router(route_class=UnitOfWork)


@router.post(
    "/v1/rides/{ride_id}/offers",
    tags=["rides"],
    summary="Offer a ride to drivers",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
async def offer_ride(
    ride_id: UUID,
    body: OffersIn,
    db: OpenDb,
    operator: Operator,
    terms: Annotated[RideTerms, Depends(wired(RideTerms))],
) -> OffersOut:
    """Offers the ride to those of these drivers who are free. The first to accept gets it."""
    ttl = terms.offer_ttl if body.ttl_seconds is None else timedelta(seconds=body.ttl_seconds)
    made = await service.make_offers(
        db,
        RideId(ride_id),
        [UserId(driver_id) for driver_id in body.driver_ids],
        ttl=ttl,
        actor="operator",
        actor_id=operator.id,
    )
    await audit.record(
        db,
        actor_id=operator.id,
        action="ride.offered",
        subject_kind="ride",
        subject_id=ride_id,
        data={"offers": len(made.offers), "skipped": len(made.skipped)},
    )
    return OffersOut.of(made)


@router.patch("/rides/{ride_id}/reject", include_in_schema=False)
@router.patch(
    "/v1/rides/{ride_id}/reject",
    tags=["rides"],
    summary="Reject a ride",
    responses=problems(401, 403, 404, 409, 410, 422),
)
async def reject_ride(ride_id: UUID, body: RejectIn, db: OpenDb, caller: Caller) -> RideOfferOut:
    """Rejects the offer, so that the next driver gets one. Safe to repeat.

    Also at `/rides/{ride_id}/reject`.
    """
    driver_id = driver_of(caller, body.driver_id)
    offer = await service.reject_ride(db, RideId(ride_id), driver_id=driver_id, reason=body.reason)
    return RideOfferOut.model_validate(offer)


def driver_of(caller: Principal, driver_id: UUID | None) -> UserId:
    """Return the driver the request is for: the caller, or for operators and services the named driver."""
    if driver_id is not None and driver_id != caller.id:
        caller.require("operator", "service")
        return UserId(driver_id)
    caller.require("driver")
    return UserId(caller.id)
