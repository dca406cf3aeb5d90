"""HTTP for sign-ups: queue them, and read their status with the returned token."""

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import Field

from catraca.domains.onboarding import service
from catraca.domains.onboarding.model import FileKind, Seal
from catraca.domains.onboarding.schemas import ImportOut, SignUpIn, SignUpOut, SignUpStatusOut
from catraca.platform.database.idempotency import KEY_SHAPE
from catraca.platform.errors import IdempotencyKeyInvalid, MediaTypeUnsupported, NotFound
from catraca.platform.http.caller import Operator
from catraca.platform.http.problems import problems
from catraca.platform.http.rate_limits import RateLimit, demand_for_email
from catraca.platform.http.route import OpenDb, Staged, UnitOfWork, make_router, wired
from catraca.platform.texts import negotiate


@dataclass(frozen=True, slots=True, kw_only=True)
class OnboardingParts:
    """What the API role passes to these routes."""

    seal: Seal
    publish: service.Publish
    publish_many: service.PublishMany
    sign_ups_per_address: RateLimit
    sign_ups_per_email: RateLimit


Parts = Annotated[OnboardingParts, Depends(wired(OnboardingParts))]
# For OpenAPI only: `_check_key` refuses other keys, like every route.
Key = Annotated[str, Field(json_schema_extra={"pattern": f"^{KEY_SHAPE.pattern}$"})]

IdempotencyKey = Annotated[
    Key | None,
    Header(description="A text that is hard to guess; a repeat with the same text is the same sign-up."),
]
StatusToken = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(
        HTTPBearer(
            scheme_name="status_token",
            description="The `status_token` of a sign-up, from `POST /v1/users`.",
            auto_error=False,
        )
    ),
]
BULK_PATH = "/v1/users/bulk"

router = make_router(route_class=Staged)
status_router = make_router(prefix="/v1", route_class=UnitOfWork)
ROUTERS = [router, status_router]


@router.post("/users", include_in_schema=False)
@router.post("/api/v1/users", include_in_schema=False)
@router.post("/v1/users", tags=["sign-up"], summary="Sign up", responses=problems(400, 422, 429, 503))
async def sign_up(
    request: Request,
    body: SignUpIn,
    parts: Parts,
    idempotency_key: IdempotencyKey = None,
) -> SignUpOut:
    """Returns as soon as the bus has stored the sign-up; the user is added shortly after.

    `GET /v1/users/{id}/status` returns the result. Also at `/users` and `/api/v1/users`.
    """
    _check_key(idempotency_key)
    await demand_for_email(
        request,
        "sign-up",
        body.email,
        per_address=parts.sign_ups_per_address,
        per_email=parts.sign_ups_per_email,
    )
    made = service.make_sign_up(
        parts.seal,
        name=body.name,
        email=body.email,
        language=negotiate(request.headers.get("accept-language")),
        idempotency_key=idempotency_key,
    )
    await service.queue_sign_up(parts.publish, made, trace=request.state.request_id)
    return SignUpOut(id=made.id, status_token=parts.seal.status_token(made))


FILE_KINDS: dict[str, FileKind] = {
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/csv": "csv",
}


@router.post(
    BULK_PATH,
    tags=["sign-up"],
    summary="Sign up many users with a file",
    responses=problems(400, 401, 403, 413, 415, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/x-ndjson": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": '{"name": "João Silva", "email": "joao@example.com"}\n',
                },
                "text/csv": {
                    "schema": {"type": "string", "format": "binary"},
                    "example": "nome;email\nJoão Silva;joao@example.com\n",
                },
            },
        }
    },
)
async def sign_up_many(
    request: Request, operator: Operator, parts: Parts, idempotency_key: IdempotencyKey = None
) -> ImportOut:
    """Reads a file of any length, one user per line, and queues the valid lines.

    The first line of CSV names the columns (`name` or `nome`, `email`), separated by comma or semicolon.
    After a broken connection send the file again with the same `Idempotency-Key`: no user is added twice.
    """
    _check_key(idempotency_key)
    media_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media_type not in FILE_KINDS:
        raise MediaTypeUnsupported
    progress = service.ImportProgress()
    await service.import_sign_ups(
        parts.publish_many,
        parts.seal,
        request.stream(),
        kind=FILE_KINDS[media_type],
        key=None if idempotency_key is None else f"{operator.id} {idempotency_key}",
        language=negotiate(request.headers.get("accept-language")),
        progress=progress,
        trace=request.state.request_id,
    )
    return ImportOut.of(progress)


def _check_key(key: str | None) -> None:
    if key is not None and not KEY_SHAPE.fullmatch(key):
        raise IdempotencyKeyInvalid


@status_router.get(
    "/users/{user_id}/status",
    tags=["sign-up"],
    summary="Read the status of a sign-up",
    responses=problems(404, 422),
)
async def read_status(user_id: UUID, db: OpenDb, parts: Parts, token: StatusToken) -> SignUpStatusOut:
    """Returns the status for the sign-up's `status_token` as bearer token; otherwise 404."""
    request_id = parts.seal.open_token(user_id, token.credentials.strip()) if token else None
    if request_id is None:
        raise NotFound
    return SignUpStatusOut.of(user_id, await service.status_of(db, user_id, request_id=request_id))
