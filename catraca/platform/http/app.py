"""Puts the HTTP side together: envelope, CORS, gate, routes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from catraca.platform.auth import Authenticator
from catraca.platform.database import Database
from catraca.platform.errors import Refusal
from catraca.platform.http import docs, health, problems
from catraca.platform.http.caller_middleware import CallerLimits, CallerMiddleware
from catraca.platform.http.proxies import Network, TrustedProxies
from catraca.platform.http.rate_limits import RateLimiter
from catraca.platform.http.request_middleware import RequestLimits, RequestMiddleware


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpParts:
    """What the HTTP side stands on; a role opens them and hands them over."""

    database: Database
    authenticator: Authenticator
    limiter: RateLimiter
    health: health.Health
    caller_limits: CallerLimits
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    trusted_proxies: Sequence[Network] = ()
    cors_origins: Sequence[str] = ()
    metrics_public: bool = True
    wired: Sequence[object] = ()
    """What domains' routes are handed, each found by its type (see `route.wired`)."""


def create_app(
    parts: HttpParts, routers: Sequence[APIRouter], *, version: str, tags: Mapping[str, str] | None = None
) -> FastAPI:
    """The ASGI application of the given routers; `tags` says what each group of routes is about."""
    app = docs.DocumentedApp(
        title="Catraca",
        version=version,
        summary="Dispatch and booking: one claim, one winner.",
        description=docs.DESCRIPTION,
        servers=[{"url": "/", "description": "This server"}],
        openapi_tags=docs.tags_metadata(tags or {}),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        # Its own tracing sees bodies, and looks on every request whether it is wanted; ours is the envelope.
        telemetry={"tracing": False, "metrics": False, "logs": False},
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
    app.state.metrics_public = parts.metrics_public
    app.state.wired = {type(part): part for part in parts.wired}
    for router in (*routers, health.router, docs.router):
        # Not included but taken over: FastAPI tries an included router's routes twice for every request.
        app.router.routes.extend(router.routes)
    return app


def _middleware(parts: HttpParts) -> list[Middleware]:
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(parts.cors_origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "idempotency-key", "accept-language", "x-request-id"],
        expose_headers=["x-request-id", "retry-after", "idempotency-replayed"],
    )
    proxies = Middleware(TrustedProxies, networks=parts.trusted_proxies)
    return [
        *([proxies] if parts.trusted_proxies else []),
        # Around the envelope, so that a page can also read the refusals the envelope gives.
        *([cors] if parts.cors_origins else []),
        Middleware(RequestMiddleware, limits=parts.request_limits),
        Middleware(
            CallerMiddleware,
            authenticator=parts.authenticator,
            limiter=parts.limiter,
            limits=parts.caller_limits,
        ),
    ]
