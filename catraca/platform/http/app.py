"""Puts the HTTP side together: envelope, CORS, gate, routes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from catraca.platform.auth import Authenticator
from catraca.platform.database import Database
from catraca.platform.errors import Refusal
from catraca.platform.http import health, problems
from catraca.platform.http.envelope import Envelope, RequestLimits
from catraca.platform.http.gate import CallerLimits, Gate
from catraca.platform.http.rate_limits import RateLimiter


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpParts:
    """What the HTTP side stands on; a role opens them and hands them over."""

    database: Database
    authenticator: Authenticator
    limiter: RateLimiter
    health: health.Health
    caller_limits: CallerLimits
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    cors_origins: Sequence[str] = ()


def create_app(parts: HttpParts, routers: Sequence[APIRouter], *, version: str) -> FastAPI:
    """The ASGI application of the given routers."""
    app = FastAPI(
        title="Catraca",
        version=version,
        summary="Dispatch and booking: one claim, one winner.",
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        middleware=_middleware(parts),
        exception_handlers={
            Refusal: problems.answer_refusal,
            RequestValidationError: problems.answer_invalid,
            HTTPException: problems.answer_http_exception,
        },
    )
    app.state.database = parts.database
    app.state.health = parts.health
    app.state.limiter = parts.limiter
    for router in (health.router, *routers):
        app.include_router(router)
    return app


def _middleware(parts: HttpParts) -> list[Middleware]:
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(parts.cors_origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "idempotency-key", "accept-language", "x-request-id"],
        expose_headers=["x-request-id", "retry-after", "idempotency-replayed"],
    )
    return [
        Middleware(Envelope, limits=parts.request_limits),
        *([cors] if parts.cors_origins else []),
        Middleware(
            Gate, authenticator=parts.authenticator, limiter=parts.limiter, limits=parts.caller_limits
        ),
    ]
