"""The turnstile at the door: reads the token, then counts the caller, before any route runs."""

import math
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from catraca.platform.auth import Authenticator, Principal
from catraca.platform.errors import Refusal, TooManyRequests
from catraca.platform.http.problems import problem_response
from catraca.platform.http.rate_limits import RateLimit, RateLimiter


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLimits:
    principal: RateLimit
    anonymous: RateLimit


class Gate:
    """Authenticated callers are counted by principal, only anonymous ones by address."""

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
        if isinstance(principal, Principal):
            bucket, limit = f"principal:{principal.id}", self._limits.principal
        else:
            bucket, limit = f"address:{_address(scope)}", self._limits.anonymous
        wait_seconds = await self._limiter.hit(bucket, limit)
        if wait_seconds is not None:
            refusal = TooManyRequests(retry_after_seconds=math.ceil(wait_seconds))
            await _refuse(refusal, scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _principal(self, scope: Scope) -> Principal | Refusal | None:
        authorization = header(scope, b"authorization")
        if authorization is None:
            return None
        kind, _, token = authorization.partition(" ")
        if kind.lower() != "bearer":
            return None
        try:
            return await self._authenticator.authenticate(token.strip())
        except Refusal as refusal:
            # Kept, not answered: public routes ignore it, and some read a bearer that is not a JWT.
            return refusal


def header(scope: Scope, name: bytes) -> str | None:
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else "unknown"


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    response = problem_response(
        refusal,
        accept_language=header(scope, b"accept-language"),
        request_id=scope["state"]["request_id"],
    )
    await response(scope, receive, send)
