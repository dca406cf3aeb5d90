"""Assembles the ASGI application.

FastAPI has the declarations of the routes and makes the OpenAPI document. Its layers answer no request: from
uvicorn a request goes through our middleware to `Dispatcher`, which calls the function of its route.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from catraca.platform.auth import Authenticator
from catraca.platform.database import Database
from catraca.platform.errors import Busy
from catraca.platform.http import docs, health
from catraca.platform.http.caller_middleware import CallerLimits, CallerMiddleware
from catraca.platform.http.endpoint import Handler, prepare
from catraca.platform.http.places import Places
from catraca.platform.http.proxies import Network, TrustedProxies
from catraca.platform.http.rate_limits import RateLimiter
from catraca.platform.http.request_middleware import RequestLimits, RequestMiddleware
from catraca.platform.http.route import CheckedRoute
from catraca.platform.http.route_table import RouteTable
from catraca.platform.http.strict_json import JsonRequest

CORS_HEADERS = ["authorization", "content-type", "idempotency-key", "accept-language", "x-request-id"]
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


class Application(docs.DocumentedApp):
    """The routes and their document for FastAPI; for the server, what answers the requests."""

    def __init__(self, parts: HttpParts, **options: Any) -> None:
        super().__init__(**options)
        self.parts = parts
        self._stack: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._stack is None:
            self._stack = _stack(self.parts, self.routes)
        scope["app"] = self
        await self._stack(scope, receive, send)


def _stack(parts: HttpParts, routes: Sequence[BaseRoute]) -> ASGIApp:
    """The layers of a request, from the inside."""
    app: ASGIApp = CallerMiddleware(
        Dispatcher(routes),
        authenticator=parts.authenticator,
        limiter=parts.limiter,
        limits=parts.caller_limits,
    )
    app = RequestMiddleware(app, limits=parts.request_limits, is_draining=lambda: parts.health.draining)
    if parts.cors_origins:
        # Outside `RequestMiddleware`, so that pages can also read its refusals.
        app = CORSMiddleware(
            app,
            allow_origins=list(parts.cors_origins),
            allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=CORS_HEADERS,
            expose_headers=["x-request-id", "retry-after", "idempotency-replayed"],
        )
    return TrustedProxies(app, networks=parts.trusted_proxies) if parts.trusted_proxies else app


class Dispatcher:
    """ASGI application: calls the function of a request's route, and sends its response."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        answered = [route for route in routes if isinstance(route, APIRoute)]
        self._table = RouteTable(answered)
        self._handlers: dict[int, Handler] = {
            id(route): route.handler if isinstance(route, CheckedRoute) else prepare(route)
            for route in answered
        }
        self._sockets = Router([route for route in routes if isinstance(route, WebSocketRoute)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._sockets(scope, receive, send)
            return
        route, scope["path_params"] = self._table.find(scope["path"], scope["method"])
        scope["route"] = route
        response = await self._handlers[id(route)](JsonRequest(scope, receive))
        await response(scope, receive, send)


def create_app(
    parts: HttpParts, routers: Sequence[APIRouter], *, version: str, tags: Mapping[str, str] | None = None
) -> Application:
    """The ASGI application with these routers. `tags` are the descriptions of the groups of routes."""
    app = Application(
        parts,
        title="Catraca",
        version=version,
        summary="Dispatch and booking: one claim, one winner.",
        description=docs.DESCRIPTION,
        servers=[{"url": "/", "description": "This server"}],
        openapi_tags=docs.tags_metadata(tags or {}),
        docs_url=None,
        redoc_url=None,
        openapi_url=None,  # `docs.router` has the route
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
        # Not `include_router`: `Dispatcher` needs the routes themselves.
        app.router.routes.extend(router.routes)
    return app
