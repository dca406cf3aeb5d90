"""HTTP for rides in a community: translate, authorise, call one verb."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse

from catraca.domains import people
from catraca.domains.geofences.errors import ConfirmationContradicted, ConfirmationTokenInvalid
from catraca.domains.geofences.model import Answer, Created, CreatedBefore, NeedsConfirmation, Refused
from catraca.domains.geofences.schemas import (
    ConfirmationOut,
    GovernanceIn,
    GovernedOut,
    GovernedRideOut,
    Spoken,
    called,
)
from catraca.domains.geofences.service.gate import Gate
from catraca.domains.people import UserId
from catraca.platform.auth import Principal
from catraca.platform.database import Db
from catraca.platform.errors import NotFound, Refusal
from catraca.platform.http.caller import Caller
from catraca.platform.http.problems import problem_response, problems
from catraca.platform.http.rate_limits import RateLimit, RateLimiter
from catraca.platform.http.route import OpenDb, UnitOfWork, keep_nothing, make_router, wired
from catraca.platform.texts import Language, negotiate, text


@dataclass(frozen=True, slots=True, kw_only=True)
class GeofenceParts:
    """What the API's role hands to this route."""

    gate: Gate
    # How many wrong tokens one person may send.
    guesses: RateLimit


Parts = Annotated[GeofenceParts, Depends(wired(GeofenceParts))]

router = make_router(route_class=UnitOfWork)
ROUTERS = [router]


@router.post("/v1/governance/ride/request", include_in_schema=False)
@router.post(
    "/api/governance/ride/request",
    tags=["rides"],
    summary="Ask for a ride in a community, or confirm one",
    status_code=201,
    response_model=GovernedOut,
    responses={
        200: {"model": GovernedOut, "description": "It was confirmed before: its ride"},
        202: {"model": ConfirmationOut, "description": "Nobody is there: will drivers from elsewhere do?"},
        **problems(401, 403, 404, 409, 410, 422, 429),
    },
)
async def request_community_ride(
    body: GovernanceIn, request: Request, db: OpenDb, caller: Caller, parts: Parts
) -> Response:
    """Opens a ride with the community's own drivers; with none of them there, asks whether others will do.

    Confirming is safe to repeat: twice, late, from two phones, it is one ride. Also at
    `/v1/governance/ride/request`.
    """
    passenger_id = await _passenger(db, caller, body)
    if not body.confirms:
        asked = body.to_asked()
        answer = await parts.gate.request_ride(db, asked, passenger_id=passenger_id, by=caller.id)
    else:
        limiter: RateLimiter = request.app.state.limiter
        bucket = f"confirmation:{passenger_id}"
        # Wrong tokens count, and after too many of them no token is looked at.
        await limiter.demand(bucket, parts.guesses, counts=False)
        answer = await parts.gate.confirm_ride(
            db, body.confirmation_token, body.said(), passenger_id=passenger_id, by=caller.id
        )
        if isinstance(answer, Refused) and isinstance(answer.refusal, ConfirmationTokenInvalid):
            await limiter.hit(bucket, parts.guesses)
    return _respond(request, answer)


async def _passenger(db: Db, caller: Principal, body: GovernanceIn) -> UserId:
    """Whom the ride is for: a passenger for themselves, operators and services for anybody there is."""
    if body.passenger_id is None or body.passenger_id == caller.id:
        caller.require("passenger")
        return UserId(caller.id)
    caller.require("operator", "service")
    passenger_id = UserId(body.passenger_id)
    passenger = (await people.lock_users(db, [passenger_id])).get(passenger_id)
    if passenger is None or passenger.erased_at is not None:
        raise NotFound
    return passenger_id


def _respond(request: Request, answer: Answer) -> Response:
    language = negotiate(request.headers.get("accept-language"))
    match answer:
        case Created():
            return _spoken(201, _ride_out(answer, _said_of(answer), language), language)
        case CreatedBefore():
            return _spoken(200, _ride_out(answer, "created_before", language), language)
        case NeedsConfirmation():
            keep_nothing(request)
            neighbours = answer.changes.tier == "neighbours"
            key = "needs_confirmation_neighbours" if neighbours else "needs_confirmation"
            return _spoken(202, ConfirmationOut.of(answer, text(f"geofences.{key}", language, {})), language)
        case Refused():
            keep_nothing(request)
            return problem_response(
                _in_their_words(answer.refusal),
                accept_language=request.headers.get("accept-language"),
                request_id=request.state.request_id,
            )


def _said_of(created: Created) -> str:
    if not created.confirmed:
        return "created"
    return "created_at_home" if created.at_home else "created_outside"


def _ride_out(answer: Created | CreatedBefore, key: str, language: Language) -> GovernedOut:
    return GovernedOut(
        ride_id=answer.ride.id,
        ride=GovernedRideOut.of(answer.ride),
        message=text(f"geofences.{key}", language, {}),
    )


def _in_their_words(refusal: Refusal) -> Refusal:
    if isinstance(refusal, ConfirmationContradicted):
        fields: list[str] = refusal.data["fields"]  # pyright: ignore[reportAssignmentType]
        return ConfirmationContradicted(fields=[called(field) for field in fields])
    return refusal


def _spoken(status: int, answer: Spoken, language: Language) -> Response:
    content = answer.model_dump(mode="json", by_alias=True)
    return JSONResponse(content, status, headers={"content-language": language})
