"""What a role hands to a domain's routes: values found by their type, so that domains read no settings."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request

T = TypeVar("T")


def wired(kind: type[T]) -> Callable[[Request], Awaitable[T]]:
    """A dependency that answers the role's one value of this type."""

    async def find(request: Request) -> T:
        return request.app.state.wired[kind]

    return find
