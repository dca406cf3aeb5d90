"""HTTP for rides in a community."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response

from catraca.domains import people
from catraca.domains.geofences.errors import ConfirmationContradicted, ConfirmationTokenInvalid
from catraca.domains.geofences.model import (
    Answer,
    ConfirmationNeeded,
    RequestRefused,
    RideCreated,
    RideCreatedBefore,
)
from catraca.domains.geofences.schemas import (
    ConfirmationOut,
    GovernanceIn,
    GovernedOut,
    GovernedRideOut,
    LocalizedOut,
    body_name,
)
from catraca.domains.geofences.service import CommunityRides
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
    """Values that the API role passes to this route."""

    rides: CommunityRides
    limiter: RateLimiter
    # Of wrong tokens, for each passenger.
    wrong_tokens: RateLimit


Parts = Annotated[GeofenceParts, Depends(wired(GeofenceParts))]

router = make_router(route_class=UnitOfWork)
ROUTERS = [router]


@router.post("/v1/governance/ride/request", include_in_schema=False)
@router.post(
    "/api/governance/ride/request",
    tags=["rides"],
    summary="Request a ride in a community, or confirm one",
    status_code=201,
    response_model=GovernedOut,
    responses={
        200: {"model": GovernedOut, "description": "Confirmed before; the same ride"},
        202: {
            "model": ConfirmationOut,
            "description": "The community has no available driver: confirm drivers from elsewhere",
        },
        **problems(401, 403, 404, 409, 410, 422, 429),
    },
)
async def request_community_ride(
    body: GovernanceIn, request: Request, db: OpenDb, caller: Caller, parts: Parts
) -> Response:
    """Creates a ride for the community's own drivers. Without one available, returns a confirmation token.

    The same body with `confirmationToken` then creates a ride for drivers from elsewhere too. Confirming is
    safe to repeat: it creates one ride. Also at `/v1/governance/ride/request`.
    """
    passenger_id = await _passenger(db, caller, body)
    if not body.confirms:
        answer = await parts.rides.request_ride(
            db, body.to_request(), passenger_id=passenger_id, by=caller.id
        )
    else:
        bucket = f"confirmation:{passenger_id}"
        # Only wrong tokens count; after too many of them no token is checked.
        await parts.limiter.demand(bucket, parts.wrong_tokens, counts=False)
        answer = await parts.rides.confirm_ride(
            db, body.confirmation_token, body.request_fields(), passenger_id=passenger_id, by=caller.id
        )
        if isinstance(answer, RequestRefused) and isinstance(answer.refusal, ConfirmationTokenInvalid):
            await parts.limiter.hit(bucket, parts.wrong_tokens)
    return _respond(request, answer)


async def _passenger(db: Db, caller: Principal, body: GovernanceIn) -> UserId:
    """The ride's passenger: the caller, or for operators and services any existing user."""
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
        case RideCreated():
            return _localized(201, _ride_out(answer, _message_key(answer), language), language)
        case RideCreatedBefore():
            return _localized(200, _ride_out(answer, "created_before", language), language)
        case ConfirmationNeeded():
            keep_nothing(request)
            neighbours = answer.changes.tier == "neighbours"
            key = "needs_confirmation_neighbours" if neighbours else "needs_confirmation"
            message = text(f"geofences.{key}", language, {})
            return _localized(202, ConfirmationOut.of(answer, message), language)
        case RequestRefused():
            keep_nothing(request)
            return problem_response(
                _with_body_names(answer.refusal),
                accept_language=request.headers.get("accept-language"),
                request_id=request.state.request_id,
            )


def _message_key(created: RideCreated) -> str:
    if not created.confirmed:
        return "created"
    return "created_at_home" if created.at_home else "created_outside"


def _ride_out(answer: RideCreated | RideCreatedBefore, key: str, language: Language) -> GovernedOut:
    return GovernedOut(
        ride_id=answer.ride.id,
        ride=GovernedRideOut.of(answer.ride),
        message=text(f"geofences.{key}", language, {}),
    )


def _with_body_names(refusal: Refusal) -> Refusal:
    if isinstance(refusal, ConfirmationContradicted):
        fields: list[str] = refusal.data["fields"]  # pyright: ignore[reportAssignmentType]
        return ConfirmationContradicted(fields=[body_name(field) for field in fields])
    return refusal


def _localized(status: int, answer: LocalizedOut, language: Language) -> Response:
    content = answer.model_dump_json(by_alias=True)
    return Response(content, status, {"content-language": language}, "application/json")
