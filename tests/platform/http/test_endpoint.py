"""Prepared routes answer as FastAPI itself would: same statuses, same bodies, same invalid fields."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from uuid import UUID

import httpx
import pytest
from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from catraca.platform.http.app import Dispatcher
from catraca.platform.http.endpoint import prepare
from catraca.platform.http.request_middleware import RequestLimits, RequestMiddleware

ID = "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60"


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=2)]
    price: int | None = None


class Filter(BaseModel):
    model_config = ConfigDict(extra="forbid")

    kind: Literal["a", "b"] = "a"
    size: int = 1


class Row(BaseModel):
    id: int = Field(serialization_alias="number")
    note: str | None = None


calls: list[str] = []


async def first(request: Request, depth: Annotated[int, Query(ge=0)] = 0) -> int:
    calls.append("first")
    return depth


async def second(depth: Annotated[int, Depends(first)]) -> int:
    calls.append("second")
    return depth + 1


def make_routes() -> APIRouter:
    router = APIRouter()

    @router.get("/things/{thing_id}")
    async def read_thing(
        thing_id: UUID,
        page: int,
        since: Annotated[int | None, Query(alias="from")] = None,
        tag: Annotated[list[str] | None, Query()] = None,
        lng: Annotated[float, Query(validation_alias=AliasChoices("lng", "lon"))] = 0.5,
        x_color: Annotated[str, Header(max_length=5)] = "red",
    ) -> dict[str, Any]:
        return {"id": thing_id, "page": page, "since": since, "tag": tag, "lng": lng, "color": x_color}

    @router.get("/converted/{number:int}")
    async def read_converted(number: int) -> int:
        return number

    @router.get("/filtered")
    async def read_filtered(wanted: Annotated[Filter, Query()]) -> Filter:
        return wanted

    @router.post("/items", status_code=201)
    async def make_item(item: Item) -> Item:
        return item

    @router.post("/maybe")
    async def make_maybe(item: Item | None = None) -> Item | None:
        return item

    @router.get("/depends")
    async def read_depends(
        one: Annotated[int, Depends(first)], two: Annotated[int, Depends(second)]
    ) -> list[int]:
        return [one, two]

    @router.put("/headed")
    async def put_headed(response: Response, wanted: int = 200) -> int:
        response.headers["x-made"] = "yes"
        response.status_code = wanted
        return wanted

    @router.delete("/gone", status_code=204)
    async def delete_gone() -> None: ...

    @router.get("/rows", response_model_exclude_none=True)
    async def read_rows() -> list[Row]:
        return [Row(id=1), Row(id=2, note="çã")]

    @router.get("/own")
    async def read_own() -> Response:
        return Response("own", 418, {"x-own": "1"}, "text/plain")

    return router


@dataclass(frozen=True)
class Sent:
    """A request that both applications get."""

    method: str
    path: str
    json: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.json or ''}"


REQUESTS = [
    Sent("GET", f"/things/{ID}?page=2"),
    Sent("GET", f"/things/{ID}?page=2&from=5&tag=x&tag=y&lon=-38.5", headers={"x-color": "blue"}),
    Sent("GET", f"/things/{ID}"),
    Sent("GET", "/things/none?page=two&from=&lng=x", headers={"x-color": "purple"}),
    Sent("GET", "/converted/17"),
    Sent("GET", "/converted/x"),
    Sent("GET", "/filtered"),
    Sent("GET", "/filtered?kind=b&size=4"),
    Sent("GET", "/filtered?kind=c&size=x&other=1"),
    Sent("POST", "/items", {"name": "tea", "price": 3}),
    Sent("POST", "/items", {"name": "t", "price": "x", "more": 1}),
    Sent("POST", "/items", []),
    Sent("POST", "/items"),
    Sent("POST", "/maybe"),
    Sent("POST", "/maybe", {"name": "tea"}),
    Sent("POST", "/maybe", {"name": ""}),
    Sent("GET", "/depends?depth=4"),
    Sent("GET", "/depends?depth=-4"),
    Sent("PUT", "/headed"),
    Sent("PUT", "/headed?wanted=202"),
    Sent("DELETE", "/gone"),
    Sent("GET", "/rows"),
    Sent("GET", "/own"),
    Sent("GET", "/nowhere"),
    Sent("POST", "/rows"),
]


def ours() -> RequestMiddleware:
    return RequestMiddleware(Dispatcher(make_routes().routes), limits=RequestLimits())


def fastapis() -> FastAPI:
    app = FastAPI()
    app.include_router(make_routes())
    return app


async def ask(app: Any, sent: Sent) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        return await client.request(sent.method, sent.path, json=sent.json, headers=sent.headers)


@pytest.mark.parametrize("sent", REQUESTS, ids=str)
async def test_answers_are_those_of_fastapi(sent: Sent) -> None:
    expected, got = await ask(fastapis(), sent), await ask(ours(), sent)
    assert got.status_code == expected.status_code
    if got.status_code == 422:
        wrong = [(".".join(map(str, one["loc"])), one["type"]) for one in expected.json()["detail"]]
        assert [(one["where"], one["code"]) for one in got.json()["errors"]] == wrong
    elif got.status_code not in (404, 405):
        assert got.content == expected.content
        ignored = {"cache-control", "content-security-policy"}
        for name in expected.headers.keys() - ignored:
            assert got.headers[name] == expected.headers[name]


async def test_dependency_runs_once_per_request() -> None:
    calls.clear()
    await ask(ours(), Sent("GET", "/depends"))
    assert calls == ["first", "second"]


def test_function_that_would_block_the_loop_is_refused() -> None:
    router = APIRouter()

    @router.get("/blocking")
    def read() -> int:
        return 1

    with pytest.raises(TypeError, match="coroutine function"):
        prepare(router.routes[0])  # type: ignore[arg-type]


async def test_undeclared_result_is_an_internal_error() -> None:
    router = APIRouter()

    @router.get("/wrong")
    async def read() -> int:
        return "not a number"  # type: ignore[return-value]

    app = RequestMiddleware(Dispatcher(router.routes), limits=RequestLimits())
    assert (await ask(app, Sent("GET", "/wrong"))).status_code == 500
