"""Rules that every route of the API keeps: unknown query parameters, and HEAD."""

from uuid import uuid4

import httpx
import pytest

from tests.conftest import bearer
from tests.servers import on_one_stack
from tests.test_authorisation import CASES, UPGRADE, Case

# The rules do not depend on the servers.
pytestmark = on_one_stack

ALL_ROLES = ["driver", "operator", "passenger", "service", "worker"]
each_route = pytest.mark.parametrize("case", [pytest.param(case, id=case.route) for case in CASES])


class AnyId(dict[str, str]):
    """A value for every parameter of a path."""

    def __missing__(self, name: str) -> str:
        return "1" if name == "version" else str(uuid4())


@each_route
async def test_unknown_query_parameters_are_refused(api: httpx.AsyncClient, case: Case) -> None:
    method, path = case.route.split(" ")
    headers = bearer(ALL_ROLES) | {"accept-language": "pt-BR"}
    if method == "SOCKET":
        method, headers = "GET", headers | UPGRADE
    answer = await api.request(method, f"{path.format_map(AnyId())}?emial=ana", headers=headers)
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["code"] == "request_invalid"
    message = "Este campo não é conhecido aqui."
    assert problem["errors"] == [{"where": "query.emial", "code": "extra_forbidden", "message": message}]


async def test_parameters_with_an_alias_are_known_by_it(api: httpx.AsyncClient) -> None:
    operator = bearer("operator")
    assert (await api.get("/v1/audit?from=2026-01-01T00:00:00Z", headers=operator)).status_code == 200
    refused = await api.get("/v1/audit?starts_at=2026-01-01T00:00:00Z&x=1&x=2", headers=operator)
    assert [one["where"] for one in refused.json()["errors"]] == ["query.starts_at", "query.x"]


async def test_missing_token_is_refused_before_the_query(api: httpx.AsyncClient) -> None:
    assert (await api.get("/v1/users?emial=ana")).status_code == 401


async def test_head_is_refused_where_there_is_no_get(api: httpx.AsyncClient) -> None:
    refused = await api.head("/v1/quotes", headers=bearer())
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    refused = await api.post("/v1/me", headers=bearer())
    assert (refused.status_code, refused.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")


async def test_head_is_counted_as_head(api: httpx.AsyncClient) -> None:
    def counted(figures: str) -> float:
        (line,) = [
            line
            for line in figures.splitlines()
            if line.startswith("catraca_http_requests_total{")
            if all(label in line for label in ('method="HEAD"', 'route="/v1/me"', 'status="200"'))
        ]
        return float(line.rpartition(" ")[2])

    caller = bearer()
    await api.head("/v1/me", headers=caller)
    before = counted((await api.get("/metrics")).text)
    await api.head("/v1/me", headers=caller)
    assert counted((await api.get("/metrics")).text) == before + 1
