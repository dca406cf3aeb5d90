"""Dependencies that answer "who asks": the gate has read the token, routes only say what they need."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase

from catraca.platform.auth import Principal
from catraca.platform.errors import Refusal, Unauthenticated


class _GateChecked(SecurityBase):
    """The caller behind the token, which the gate has checked; also what /docs shows."""

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


_checked = _GateChecked()


async def check_caller(request: Request) -> None:
    """Refuse whoever has no valid token, as the routes' own dependency would a little later."""
    await _checked(request)


def needs_caller(dependant: Dependant) -> bool:
    """Whether a route takes a caller anywhere among its dependencies."""
    return dependant.call is _checked or any(needs_caller(part) for part in dependant.dependencies)


Caller = Annotated[Principal, Depends(_checked)]
"""Whoever holds a valid token."""


def _only(*roles: str) -> Callable[[Principal], Awaitable[Principal]]:
    async def check(caller: Caller) -> Principal:
        caller.require(*roles)
        return caller

    return check


Operator = Annotated[Principal, Depends(_only("operator"))]
"""A caller with the role `operator`."""
