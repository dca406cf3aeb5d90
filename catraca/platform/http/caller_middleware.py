"""Authenticates the caller and limits its requests, before any route runs."""

import math
from dataclasses import dataclass
from http import HTTPStatus

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from catraca.platform.auth import Authenticator, Principal
from catraca.platform.errors import Refusal, TokenInvalid, TooManyAtOnce, TooManyRequests
from catraca.platform.http.places import PersonalPlaces
from catraca.platform.http.problems import problem_response
from catraca.platform.http.proxies import caller_of
from catraca.platform.http.rate_limits import RateLimit, RateLimiter

# Monitoring must not be refused because of other callers from the same address.
UNCOUNTED = frozenset({"/livez", "/readyz"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    principal: RateLimit
    anonymous: RateLimit
    # Requests of one person at a time in this process; further ones wait.
    at_once: int = 8
    most_waiting: int = 50
    # Paths whose body is a file: such a request runs for minutes, and must not keep a place.
    streams: frozenset[str] = frozenset()


class CallerMiddleware:
    """ASGI middleware. Authenticated callers are counted by principal, anonymous ones by address."""

    def __init__(
        self, app: ASGIApp, *, authenticator: Authenticator, limiter: RateLimiter, limits: CallerLimits
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._limiter = limiter
        self._limits = limits
        self._places = PersonalPlaces(
            count=limits.at_once, most_waiting=limits.most_waiting, refusal=TooManyAtOnce
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        principal = await self._principal(scope)
        scope["state"]["principal"] = principal
        wait_seconds = await self._count(scope, principal)
        if wait_seconds is not None:
            refusal = TooManyRequests(retry_after_seconds=math.ceil(wait_seconds))
            await _refuse(refusal, scope, receive, send)
            return
        if not isinstance(principal, Principal) or self._runs_at_once(scope, principal):
            await self._app(scope, receive, send)
            return
        receive = await self._places.take(principal.id, receive)
        try:
            await self._app(scope, receive, send)
        finally:
            self._places.release(principal.id)

    def _runs_at_once(self, scope: Scope, principal: Principal) -> bool:
        """True for sockets and files, which last long, and for services, which act for many people."""
        return (
            scope["type"] == "websocket" or scope["path"] in self._limits.streams or principal.has("service")
        )

    async def _count(self, scope: Scope, principal: Principal | Refusal | None) -> float | None:
        if isinstance(principal, Principal):
            return await self._limiter.hit(*_bucket_of(scope, principal, self._limits))
        if isinstance(principal, Refusal) and principal.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return None  # the token could not be verified, so the caller is unknown; the route answers 503
        if scope["path"] in UNCOUNTED or scope["type"] == "websocket":
            return None  # a socket may have a ticket instead of a token; its route counts it
        return await self._limiter.hit(*_bucket_of(scope, principal, self._limits))

    async def _principal(self, scope: Scope) -> Principal | Refusal | None:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if not given:
            return None
        if len(given) > 1:  # ambiguous
            return TokenInvalid()
        kind, _, token = given[0].decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            return None
        try:
            return await self._authenticator.authenticate(token.strip())
        except Refusal as refusal:
            # Not answered here: public routes ignore it, and some have a bearer token that is not a JWT.
            return refusal


async def charge_caller(request: Request, cost: int) -> None:
    """Count a request as `cost` requests in all, of which the middleware has counted one."""
    limits: CallerLimits = request.app.state.caller_limits
    limiter: RateLimiter = request.app.state.limiter
    bucket, limit = _bucket_of(request.scope, request.scope["state"]["principal"], limits)
    more = min(cost, limit.count) - 1
    wait_seconds = await limiter.hit(bucket, limit, cost=more) if more > 0 else None
    if wait_seconds is not None:
        # The next attempt is counted by the middleware first.
        wait_seconds += limit.seconds / limit.count
        raise TooManyRequests(retry_after_seconds=math.ceil(wait_seconds))


def _bucket_of(
    scope: Scope, principal: Principal | Refusal | None, limits: CallerLimits
) -> tuple[str, RateLimit]:
    if isinstance(principal, Principal):
        return f"principal:{principal.id}", limits.principal
    return f"address:{_address(scope)}", limits.anonymous


def header(scope: Scope, name: bytes) -> str | None:
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return caller_of(client[0]) if client else "unknown"


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    response = problem_response(
        refusal,
        accept_language=header(scope, b"accept-language"),
        request_id=scope["state"]["request_id"],
    )
    await response(scope, receive, send)
