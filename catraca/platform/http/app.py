"""Assembles the ASGI application: middleware, routes, error handlers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from catraca.platform.auth import Authenticator
from catraca.platform.database import Database
from catraca.platform.errors import Busy, Refusal
from catraca.platform.http import docs, health, problems
from catraca.platform.http.caller_middleware import CallerLimits, CallerMiddleware
from catraca.platform.http.places import Places
from catraca.platform.http.proxies import Network, TrustedProxies
from catraca.platform.http.rate_limits import RateLimiter
from catraca.platform.http.request_middleware import RequestLimits, RequestMiddleware

# More expensive requests than this take longer than a request may.
MOST_WAITING = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpParts:
    """The parts of the HTTP side, opened by a role."""

    database: Database
    authenticator: Authenticator
    limiter: RateLimiter
    health: health.Health
    caller_limits: CallerLimits
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    trusted_proxies: Sequence[Network] = ()
    cors_origins: Sequence[str] = ()
    metrics_public: bool = True
    # Requests marked with `route.expensive` that run at a time.
    expensive_at_once: int = 2
    fresh_sign_in: timedelta = timedelta(minutes=10)
    wired: Sequence[object] = ()
    """Values for the domains' routes, found by their types (see `route.wired`)."""


def create_app(
    parts: HttpParts, routers: Sequence[APIRouter], *, version: str, tags: Mapping[str, str] | None = None
) -> FastAPI:
    """The ASGI application with these routers. `tags` are the descriptions of the groups of routes."""
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
        openapi_url=None,  # `docs.router` has the route
        # FastAPI's tracing reads bodies and costs time on every request; ours is `RequestMiddleware`.
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
    app.state.caller_limits = parts.caller_limits
    app.state.expensive = Places(
        "expensive", count=parts.expensive_at_once, most_waiting=MOST_WAITING, refusal=Busy
    )
    app.state.fresh_sign_in = parts.fresh_sign_in
    app.state.metrics_public = parts.metrics_public
    app.state.metrics_page = health.MetricsPage(kept_seconds=health.METRICS_KEPT_SECONDS)
    app.state.wired = {type(part): part for part in parts.wired}
    for router in (*routers, health.router, docs.router):
        # Not `include_router`: FastAPI tries an included router's routes twice for every request (decision
        # 13).
        app.router.routes.extend(router.routes)
    return app


def _middleware(parts: HttpParts) -> list[Middleware]:
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(parts.cors_origins),
        allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "idempotency-key", "accept-language", "x-request-id"],
        expose_headers=["x-request-id", "retry-after", "idempotency-replayed"],
    )
    proxies = Middleware(TrustedProxies, networks=parts.trusted_proxies)
    return [
        *([proxies] if parts.trusted_proxies else []),
        # Outside `RequestMiddleware`, so that pages can also read its refusals.
        *([cors] if parts.cors_origins else []),
        Middleware(RequestMiddleware, limits=parts.request_limits, is_draining=lambda: parts.health.draining),
        Middleware(
            CallerMiddleware,
            authenticator=parts.authenticator,
            limiter=parts.limiter,
            limits=parts.caller_limits,
        ),
    ]
