"""HTTP for rides: translate, authorise, call one verb."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Header, Query, Request, Response

from catraca.domains.fares import Tariff
from catraca.domains.people import UserId
from catraca.domains.rides import service
from catraca.domains.rides.model import Attempt, RideId, Status
from catraca.domains.rides.schemas import (
    AcceptIn,
    AcceptOut,
    AttemptPage,
    CancelIn,
    CompleteIn,
    Key,
    OfferOut,
    OffersIn,
    OffersOut,
    RejectIn,
    RideIn,
    RideOut,
    RidePage,
)
from catraca.platform.auth import Principal
from catraca.platform.database import after_commit, audit
from catraca.platform.errors import Forbidden
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.proxies import parse_address
from catraca.platform.http.route import OpenDb, Staged, UnitOfWork, make_router, wired
from catraca.platform.ids import new_id

AGENT_MAX_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RideParts:
    """What the API's role hands to these routes."""

    accepting: service.Accepting
    tariff: Tariff
    search: timedelta
    offer_ttl: timedelta


Parts = Annotated[RideParts, Depends(wired(RideParts))]

router = make_router(route_class=UnitOfWork)
accept_router = make_router(route_class=Staged)
ROUTERS = [accept_router, router]


@router.post(
    "/v1/rides",
    tags=["rides"],
    summary="Ask for a ride",
    status_code=201,
    responses=problems(401, 403, 409, 422),
)
async def request_ride(body: RideIn, db: OpenDb, caller: Caller, parts: Parts) -> RideOut:
    """Opens a ride and looks for a driver. A passenger has one open ride at a time."""
    caller.require("passenger")
    ride = await service.request_ride(
        db,
        body.to_request(),
        passenger_id=UserId(caller.id),
        tariff=parts.tariff,
        search=parts.search,
    )
    return RideOut.of(service.RideView(ride=ride, part="passenger"))


@router.get("/v1/rides", tags=["rides"], summary="List rides", responses=problems(401, 422))
async def list_rides(
    db: OpenDb,
    caller: Caller,
    status: Annotated[list[Status] | None, Query(description="Only in these states.")] = None,
    before: Annotated[UUID | None, Query(description="The previous page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> RidePage:
    """Answers the caller's own rides, as passenger or driver, newest first; to operators, everybody's."""
    views = await service.list_rides(
        db,
        caller_id=UserId(caller.id),
        sees_all=caller.acts_for_others,
        statuses=status,
        before=before,
        limit=limit + 1,
    )
    return RidePage.of(views, limit=limit)


@router.get("/v1/rides/{ride_id}", tags=["rides"], summary="Read a ride", responses=problems(401, 404, 422))
async def read_ride(ride_id: UUID, db: OpenDb, caller: Caller) -> RideOut:
    """Answers the ride to its parties and to operators.

    A driver to whom it is offered sees roughly where it begins and ends, and not whose it is.
    """
    view = await service.view_ride(
        db, RideId(ride_id), caller_id=UserId(caller.id), sees_all=caller.acts_for_others
    )
    return RideOut.of(view)


@router.post(
    "/v1/rides/{ride_id}/offers",
    tags=["rides"],
    summary="Offer a ride to drivers",
    status_code=201,
    responses=problems(401, 403, 404, 409, 422),
)
async def offer_ride(
    ride_id: UUID, body: OffersIn, db: OpenDb, operator: Operator, parts: Parts
) -> OffersOut:
    """Asks these drivers, as far as each is free; whoever accepts first has the ride."""
    ttl = parts.offer_ttl if body.ttl_seconds is None else timedelta(seconds=body.ttl_seconds)
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


IdempotencyKey = Annotated[
    Key | None, Header(description="Or `idempotency_key` in the body, which counts where there are both.")
]


@accept_router.post("/rides/{ride_id}/accept", include_in_schema=False)
@accept_router.patch("/rides/{ride_id}/accept", include_in_schema=False)
@accept_router.patch(
    "/v1/rides/{ride_id}/accept",
    tags=["rides"],
    summary="Accept a ride, the other way",
    operation_id="accept_ride_by_patch",
    responses=problems(400, 401, 403, 404, 409, 410, 422),
)
@accept_router.post(
    "/v1/rides/{ride_id}/accept",
    tags=["rides"],
    summary="Accept a ride",
    responses=problems(400, 401, 403, 404, 409, 410, 422),
)
async def accept_ride(
    ride_id: UUID,
    body: AcceptIn,
    request: Request,
    caller: Caller,
    parts: Parts,
    idempotency_key: IdempotencyKey = None,
) -> AcceptOut:
    """Gives the ride to this driver, if nobody else has it and the offer still stands.

    With the same key a repeat gets the same answer, whatever happened meanwhile. Every attempt is recorded.
    Also at `/rides/{ride_id}/accept`, and by `PATCH`.
    """
    accepted = await parts.accepting.accept_ride(
        Attempt(
            id=new_id(),
            ride_id=RideId(ride_id),
            driver_id=_driver(caller, body.driver_id),
            actor_id=caller.id,
            idempotency_key=body.idempotency_key or idempotency_key,
            request_id=request.state.request_id,
            user_agent=(request.headers.get("user-agent") or "")[:AGENT_MAX_CHARACTERS] or None,
            ip_address=_address(request),
        )
    )
    return AcceptOut.model_validate(accepted)


def _address(request: Request) -> str | None:
    """As the database can keep it: without the zone that sockets add to link-local ones."""
    address = parse_address(request.client.host) if request.client else None
    return None if address is None else str(address)


def _driver(caller: Principal, named_id: UUID | None) -> UserId:
    """Whom the request is for: a driver for themselves, operators and services for anybody."""
    if named_id is not None and named_id != caller.id:
        caller.require("operator", "service")
        return UserId(named_id)
    caller.require("driver")
    return UserId(caller.id)


@router.patch("/rides/{ride_id}/reject", include_in_schema=False)
@router.patch(
    "/v1/rides/{ride_id}/reject",
    tags=["rides"],
    summary="Refuse a ride",
    responses=problems(401, 403, 404, 409, 410, 422),
)
async def reject_ride(ride_id: UUID, body: RejectIn, db: OpenDb, caller: Caller) -> OfferOut:
    """Refuses the offer, so that the next driver is asked. Safe to repeat.

    Also at `/rides/{ride_id}/reject`.
    """
    driver_id = _driver(caller, body.driver_id)
    offer = await service.reject_ride(db, RideId(ride_id), driver_id=driver_id, reason=body.reason)
    return OfferOut.model_validate(offer)


@router.post(
    "/v1/rides/{ride_id}/arrive",
    tags=["rides"],
    summary="Say that the driver is there",
    responses=problems(401, 403, 404, 409, 422),
)
async def arrive(ride_id: UUID, db: OpenDb, caller: Caller) -> RideOut:
    """From `ACCEPTED` to `ARRIVING`, by the ride's driver."""
    caller.require("driver")
    await service.arrive(db, RideId(ride_id), by=UserId(caller.id))
    return await read_ride(ride_id, db, caller)


@router.post(
    "/v1/rides/{ride_id}/start",
    tags=["rides"],
    summary="Start the ride",
    responses=problems(401, 403, 404, 409, 422),
)
async def start(ride_id: UUID, db: OpenDb, caller: Caller) -> RideOut:
    """From `ARRIVING` to `STARTED`, by the ride's driver: the passenger is in the car."""
    caller.require("driver")
    await service.start(db, RideId(ride_id), by=UserId(caller.id))
    return await read_ride(ride_id, db, caller)


@router.post(
    "/v1/rides/{ride_id}/complete",
    tags=["rides"],
    summary="Complete the ride",
    responses=problems(401, 403, 404, 409, 422),
)
async def complete(ride_id: UUID, db: OpenDb, caller: Caller, parts: Parts, body: CompleteIn) -> RideOut:
    """From `STARTED` to `COMPLETED`, by the ride's driver, who is free then; the fare is settled."""
    caller.require("driver")
    await service.complete(
        db,
        RideId(ride_id),
        by=UserId(caller.id),
        tariff=parts.tariff,
        distance_meters=body.distance_meters,
    )
    return await read_ride(ride_id, db, caller)


@router.post(
    "/v1/rides/{ride_id}/cancel",
    tags=["rides"],
    summary="Cancel a ride",
    responses=problems(401, 404, 409, 422),
)
async def cancel_ride(ride_id: UUID, body: CancelIn, db: OpenDb, caller: Caller, parts: Parts) -> RideOut:
    """Ends the ride; or, by its driver, gives it up, and another driver is looked for."""
    ride = await service.cancel_ride(
        db,
        RideId(ride_id),
        by=caller.id,
        is_operator=caller.acts_for_others,
        reason=body.reason,
        note=body.note,
        search=parts.search,
    )
    if ride.status == "SEARCHING":
        after_commit(db, lambda: parts.accepting.forget(ride.id))
    return RideOut.of(service.view_of(ride, UserId(caller.id), sees_all=caller.acts_for_others))


@router.get("/drivers/{driver_id}/active-ride", response_model=RideOut, include_in_schema=False)
@router.get(
    "/v1/drivers/{driver_id}/active-ride",
    tags=["rides"],
    summary="Read a driver's active ride",
    response_model=RideOut,
    responses={204: {"description": "None just now"}, **problems(401, 403, 422)},
)
async def read_active_ride(driver_id: UUID, db: OpenDb, caller: Caller) -> RideOut | Response:
    """Answers what the driver has accepted and not finished. Also at `/drivers/{driver_id}/active-ride`."""
    if driver_id != caller.id and not caller.acts_for_others:
        raise Forbidden
    view = await service.active_ride(db, UserId(driver_id))
    return Response(status_code=204) if view is None else RideOut.of(view)


@router.get(
    "/v1/rides/{ride_id}/attempts",
    tags=["rides"],
    summary="Read the attempts to accept a ride",
    responses=problems(401, 403, 404, 422),
)
async def read_attempts(
    ride_id: UUID,
    db: OpenDb,
    operator: Operator,
    after: Annotated[UUID | None, Query(description="The previous page's `next`.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> AttemptPage:
    """Answers every attempt, in the order they came in, with what it came to."""
    attempts = await service.read_attempts(db, RideId(ride_id), after=after, limit=limit + 1)
    return AttemptPage.of(attempts, limit=limit)
