"""The table finds the route that fits path and method, whatever the order of the declarations."""

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from catraca.platform.errors import MethodNotAllowed, NotFound
from catraca.platform.http.route_table import RouteTable


def table_of(*declared: tuple[str, str]) -> RouteTable:
    router = APIRouter()

    async def endpoint() -> None: ...

    for method, path in declared:
        router.add_api_route(path, endpoint, methods=[method], name=f"{method} {path}")
    return RouteTable([route for route in router.routes if isinstance(route, APIRoute)])


TABLE = table_of(
    ("GET", "/rides/{ride_id}"),
    ("GET", "/rides/flags"),
    ("POST", "/rides/{id}"),
    ("POST", "/rides/{id}/accept"),
    ("PATCH", "/rides/{id}/accept"),
    ("GET", "/seats/{seat:int}"),
    ("GET", "/seats/{code}"),
    ("GET", "/"),
)
FOUND = [
    ("GET", "/rides/17", "GET /rides/{ride_id}", {"ride_id": "17"}),
    ("GET", "/rides/flags", "GET /rides/flags", {}),
    # No POST at the fixed path, so that the parameter is tried.
    ("POST", "/rides/flags", "POST /rides/{id}", {"id": "flags"}),
    ("PATCH", "/rides/a%20b/accept", "PATCH /rides/{id}/accept", {"id": "a%20b"}),
    ("GET", "/seats/4", "GET /seats/{seat:int}", {"seat": 4}),
    ("GET", "/seats/4a", "GET /seats/{code}", {"code": "4a"}),
    ("GET", "/", "GET /", {}),
]


@pytest.mark.parametrize(("method", "path", "name", "values"), FOUND)
def test_route_and_values_are_found(method: str, path: str, name: str, values: dict[str, object]) -> None:
    route, found = TABLE.find(path, method)
    assert (route.name, found) == (name, values)


@pytest.mark.parametrize(
    "path", ["", "/ride", "/rides", "/rides/", "/rides/1/", "/rides//accept", "//", "/seats"]
)
def test_unknown_path_is_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        TABLE.find(path, "GET")


def test_other_method_names_those_of_all_routes_that_fit() -> None:
    with pytest.raises(MethodNotAllowed) as refused:
        TABLE.find("/rides/flags", "DELETE")
    assert refused.value.allowed == ["GET", "HEAD", "POST"]
