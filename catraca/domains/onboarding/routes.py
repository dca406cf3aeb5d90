"""HTTP for sign-ups: taken at the speed of the bus, and asked after with the token they were answered."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Header, Request
from pydantic import Field

from catraca.domains.onboarding import service
from catraca.domains.onboarding.model import FileKind, Seal
from catraca.domains.onboarding.schemas import ImportOut, SignUpIn, SignUpOut, StatusOut
from catraca.platform.database.idempotency import KEY_SHAPE
from catraca.platform.errors import IdempotencyKeyInvalid, MediaTypeUnsupported, NotFound
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.rate_limits import RateLimit, demand_for_email
from catraca.platform.http.route import OpenDb, Staged, UnitOfWork, make_router, wired
from catraca.platform.texts import negotiate


@dataclass(frozen=True, slots=True, kw_only=True)
class OnboardingParts:
    """What the API's role hands to these routes."""

    seal: Seal
    publish: service.Publish
    publish_many: service.PublishMany
    sign_ups_per_address: RateLimit
    sign_ups_per_email: RateLimit


Parts = Annotated[OnboardingParts, Depends(wired(OnboardingParts))]
# Only told here: what else it may be is refused as everywhere.
Key = Annotated[str, Field(json_schema_extra={"pattern": f"^{KEY_SHAPE.pattern}$"})]

IdempotencyKey = Annotated[
    Key | None,
    Header(description="Any text of your own, hard to guess; a repeat with it is the same sign-up."),
]
BULK_PATH = "/v1/users/bulk"

router = make_router(route_class=Staged)
status_router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router, status_router]


@router.post("/api/v1/users", include_in_schema=False)
@router.post("/v1/users", tags=["sign-up"], summary="Sign up", responses=problems(400, 422, 429, 503))
async def sign_up(
    request: Request,
    body: SignUpIn,
    parts: Parts,
    idempotency_key: IdempotencyKey = None,
) -> SignUpOut:
    """Answers as soon as the sign-up is in safe keeping; the person is made a moment later.

    Ask `GET /v1/users/{id}/status` for what became of it. Also at `/api/v1/users`.
    """
    _check_key(idempotency_key)
    await demand_for_email(
        request,
        "sign-up",
        body.email,
        per_address=parts.sign_ups_per_address,
        per_email=parts.sign_ups_per_email,
    )
    taken = service.make_sign_up(
        parts.seal,
        name=body.name,
        email=body.email,
        language=negotiate(request.headers.get("accept-language")),
        idempotency_key=idempotency_key,
    )
    await service.queue_sign_up(parts.publish, taken, trace=request.state.request_id)
    return SignUpOut(id=taken.id, status_token=parts.seal.status_token(taken))


FILE_KINDS: dict[str, FileKind] = {
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
}


@router.post(
    BULK_PATH,
    tags=["sign-up"],
    summary="Sign up a whole file",
    responses=problems(400, 401, 403, 413, 415, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {
                    "schema": {"type": "string"},
                    "example": '{"name": "João Silva", "email": "joao@example.com"}\n',
                },
                "text/csv": {
                    "schema": {"type": "string"},
                    "example": "nome;email\nJoão Silva;joao@example.com\n",
                },
            },
        }
    },
)
async def sign_up_many(
    request: Request, operator: Operator, parts: Parts, idempotency_key: IdempotencyKey = None
) -> ImportOut:
    """Takes a file of any length as it comes, a line for each person, and queues what it can.

    In CSV the first line names the columns (`name` or `nome`, `email`), separated by comma or semicolon.
    After a broken connection send the file again with the same `Idempotency-Key`: nobody is signed up twice.
    """
    _check_key(idempotency_key)
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type not in FILE_KINDS:
        raise MediaTypeUnsupported
    done = service.ImportedSoFar()
    await service.import_sign_ups(
        parts.publish_many,
        parts.seal,
        request.stream(),
        kind=FILE_KINDS[media_type],
        key=None if idempotency_key is None else f"{operator.id} {idempotency_key}",
        language=negotiate(request.headers.get("accept-language")),
        so_far=done,
        trace=request.state.request_id,
    )
    return ImportOut.of(done)


def _check_key(key: str | None) -> None:
    if key is not None and not KEY_SHAPE.fullmatch(key):
        raise IdempotencyKeyInvalid


@status_router.get(
    "/users/{user_id}/status",
    tags=["sign-up"],
    summary="Ask what became of a sign-up",
    responses=problems(404, 422),
)
async def read_status(request: Request, user_id: UUID, db: OpenDb, parts: Parts) -> StatusOut:
    """Answers whoever sends the sign-up's `status_token` as bearer token; nobody else learns of it."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    request_id = parts.seal.open_token(user_id, token.strip()) if kind.lower() == "bearer" else None
    if request_id is None:
        raise NotFound
    return StatusOut.of(user_id, await service.status_of(db, user_id, request_id=request_id))
