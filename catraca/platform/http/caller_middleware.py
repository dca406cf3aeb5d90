"""Authenticates and rate-limits the caller, before any route runs."""

import math
from dataclasses import dataclass
from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from catraca.platform.auth import Authenticator, Principal
from catraca.platform.errors import Refusal, TokenInvalid, TooManyRequests
from catraca.platform.http.problems import problem_response
from catraca.platform.http.proxies import caller_of
from catraca.platform.http.rate_limits import RateLimit, RateLimiter

# Monitoring must not be refused because of other callers from the same address.
UNCOUNTED = frozenset({"/livez", "/readyz"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    principal: RateLimit
    anonymous: RateLimit


class CallerMiddleware:
    """ASGI middleware. Authenticated callers are counted by principal, anonymous ones by address."""

    def __init__(
        self, app: ASGIApp, *, authenticator: Authenticator, limiter: RateLimiter, limits: CallerLimits
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._limiter = limiter
        self._limits = limits

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
        await self._app(scope, receive, send)

    async def _count(self, scope: Scope, principal: Principal | Refusal | None) -> float | None:
        if isinstance(principal, Principal):
            return await self._limiter.hit(f"principal:{principal.id}", self._limits.principal)
        if isinstance(principal, Refusal) and principal.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return None  # the token could not be verified, so the caller is unknown; the route answers 503
        if scope["path"] in UNCOUNTED or scope["type"] == "websocket":
            return None  # a socket may have a ticket instead of a token; its route counts it
        return await self._limiter.hit(f"address:{_address(scope)}", self._limits.anonymous)

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
