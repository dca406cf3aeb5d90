"""HTTP for accepting a ride."""

from typing import Annotated
from uuid import UUID

from fastapi import Depends, Header, Query, Request

from catraca.domains.rides.acceptance import service
from catraca.domains.rides.acceptance.model import Attempt
from catraca.domains.rides.acceptance.schemas import AcceptIn, AcceptOut, AttemptPage, Key
from catraca.domains.rides.model import RideId
from catraca.domains.rides.offers.routes import driver_of
from catraca.platform.forms import PageCursor
from catraca.platform.http.caller import Caller, Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.proxies import parse_address
from catraca.platform.http.route import OpenDb, Staged, UnitOfWork, make_router, wired
from catraca.platform.ids import new_id

AGENT_MAX_CHARACTERS = 200

Acceptance = Annotated[service.Acceptance, Depends(wired(service.Acceptance))]
IdempotencyKey = Annotated[
    Key | None, Header(description="Or `idempotency_key` in the body, which takes precedence.")
]
router = make_router(route_class=UnitOfWork)
accept_router = make_router(route_class=Staged)


@accept_router.post("/rides/{ride_id}/accept", include_in_schema=False)
@accept_router.patch("/rides/{ride_id}/accept", include_in_schema=False)
@accept_router.patch(
    "/v1/rides/{ride_id}/accept",
    tags=["rides"],
    summary="Accept a ride (PATCH)",
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
    acceptance: Acceptance,
    idempotency_key: IdempotencyKey = None,
) -> AcceptOut:
    """Gives the ride to this driver, if no other driver has it and the offer is live.

    A repeat with the same key gets the same answer; after this driver gave the ride up, or after its end,
    without the passenger and the places. Every attempt is recorded.
    Also at `/rides/{ride_id}/accept`, and by `PATCH`.
    """
    accepted = await acceptance.accept_ride(
        Attempt(
            id=new_id(),
            ride_id=RideId(ride_id),
            driver_id=driver_of(caller, body.driver_id),
            actor_id=caller.id,
            idempotency_key=body.idempotency_key or idempotency_key,
            request_id=request.state.request_id,
            user_agent=(request.headers.get("user-agent") or "")[:AGENT_MAX_CHARACTERS] or None,
            ip_address=_address(request),
        )
    )
    return AcceptOut.of(accepted)


def _address(request: Request) -> str | None:
    """Return the client's address without the zone that sockets add to link-local ones."""
    address = parse_address(request.client.host) if request.client else None
    return None if address is None else str(address)


@router.get(
    "/v1/rides/{ride_id}/attempts",
    tags=["rides"],
    summary="List the attempts to accept a ride",
    responses=problems(401, 403, 404, 422),
)
async def read_attempts(
    ride_id: UUID,
    db: OpenDb,
    operator: Operator,
    after: PageCursor = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> AttemptPage:
    """Returns every attempt with its outcome, in order of arrival."""
    attempts = await service.read_attempts(db, RideId(ride_id), after=after, limit=limit + 1)
    return AttemptPage.of(attempts, limit=limit)
