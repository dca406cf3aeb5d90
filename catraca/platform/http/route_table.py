"""Finds the route of a request by the segments of its path, at a cost that does not grow with the routes."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fastapi.routing import APIRoute

from catraca.platform.errors import MethodNotAllowed, NotFound

PathValues = dict[str, Any]


class RouteTable:
    """A tree of segments. Where a path fits a fixed segment and a parameter, the fixed one is tried first."""

    def __init__(self, routes: Sequence[APIRoute]) -> None:
        self._root: Final = _Node()
        for route in routes:
            node = self._root
            for segment in route.path.split("/"):
                # Of several parameters in one place, each route has its own names and types.
                key = None if "{" in segment else segment
                node = node.below.setdefault(key, _Node())
            for method in route.methods or ():
                node.routes.setdefault(method, []).append(route)

    def find(self, path: str, method: str) -> tuple[APIRoute, PathValues]:
        """The route, and the values in the path. Raises `NotFound` or `MethodNotAllowed`."""
        segments = path.split("/")
        for node in self._root.find(segments, 0):
            for route in node.routes.get(method, ()):
                values = _values(route, path)
                if values is not None:
                    return route, values
        allowed = self._methods_of(path, segments)
        if allowed:
            raise MethodNotAllowed(allowed)
        raise NotFound

    def _methods_of(self, path: str, segments: Sequence[str]) -> list[str]:
        methods = {
            method
            for node in self._root.find(segments, 0)
            for method, routes in node.routes.items()
            if any(_values(route, path) is not None for route in routes)
        }
        return sorted(methods | {"HEAD"} if "GET" in methods else methods)


class _Node:
    """The routes that end here, by method; and what is below, by the next segment (None: a parameter)."""

    __slots__ = ("below", "routes")

    def __init__(self) -> None:
        self.below: dict[str | None, _Node] = {}
        self.routes: dict[str, list[APIRoute]] = {}

    def find(self, segments: Sequence[str], at: int) -> "Iterator[_Node]":
        """The nodes of the segments from `at` on."""
        if at == len(segments):
            yield self
            return
        for key in (segments[at], None):
            if (node := self.below.get(key)) is not None:
                yield from node.find(segments, at + 1)


def _values(route: APIRoute, path: str) -> PathValues | None:
    """The values of the route's parameters in this path; None if one does not fit its type."""
    if not route.param_convertors:
        return {}
    found = route.path_regex.match(path)
    if found is None:
        return None
    convertors = route.param_convertors
    return {name: convertors[name].convert(text) for name, text in found.groupdict().items()}
