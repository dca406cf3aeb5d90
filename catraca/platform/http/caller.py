"""Dependencies for the caller. `CallerMiddleware` has read the token; routes declare what they need."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from catraca.platform.auth import Principal
from catraca.platform.errors import Refusal, Unauthenticated


class _VerifiedCaller(SecurityBase):
    """The caller that `CallerMiddleware` has verified; also shown in /docs."""

    def __init__(self) -> None:
        self.model = HTTPBearer(
            bearerFormat="JWT", description="From `catraca token` or `POST /v1/auth/token`."
        )
        self.scheme_name = "token"

    async def __call__(self, request: Request) -> Principal:
        principal: Principal | Refusal | None = request.state.principal
        if isinstance(principal, Principal):
            return principal
        raise principal or Unauthenticated()


_checked = _VerifiedCaller()


async def check_caller(request: Request) -> None:
    """Refuse a request without a valid token, before the route's own dependency does."""
    await _checked(request)


def needs_caller(dependant: Dependant) -> bool:
    """True if a route has the caller among its dependencies."""
    return dependant.call is _checked or any(needs_caller(part) for part in dependant.dependencies)


Caller = Annotated[Principal, Depends(_checked)]
"""A caller with a valid token."""


def _only(*roles: str) -> Callable[[Principal], Awaitable[Principal]]:
    async def check(caller: Caller) -> Principal:
        caller.require(*roles)
        return caller

    return check


async def _fresh(request: Request, caller: Caller) -> Principal:
    caller.require_fresh(request.app.state.fresh_sign_in)
    return caller


FreshCaller = Annotated[Principal, Depends(_fresh)]
"""A caller who has signed in lately: for what cannot be undone, or decides who gets in."""


Operator = Annotated[Principal, Depends(_only("operator"))]
"""A caller with the role `operator`."""


async def _fresh_operator(request: Request, operator: Operator) -> Principal:
    return await _fresh(request, operator)


FreshOperator = Annotated[Principal, Depends(_fresh_operator)]
"""An operator who has signed in lately."""
