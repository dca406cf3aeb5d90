"""Route classes: one request is one transaction, with one stored response per idempotency key."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Annotated, Any, TypeVar, cast

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from starlette.requests import ClientDisconnect, HTTPConnection

from catraca.platform.auth import Principal
from catraca.platform.database import Database, Db, Transact
from catraca.platform.database.idempotency import Claim, StoredResponse
from catraca.platform.http.caller import check_caller, needs_caller
from catraca.platform.http.caller_middleware import charge_caller
from catraca.platform.http.endpoint import Handler, names_of, prepare
from catraca.platform.http.places import Places
from catraca.platform.http.strict_json import JsonRequest

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
REPLAYED_HEADERS = ("content-type", "location", "etag")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
T = TypeVar("T")


class CheckedRoute(APIRoute):
    """Refuses a missing caller and unknown query parameters before it does any work."""

    methods: set[str]
    # Answers this route's requests.
    handler: Handler

    def get_route_handler(self) -> Any:
        """Prepare `handler`; FastAPI calls this once, when the route is declared."""
        run = self.wrap(prepare(self))
        must_have_caller = needs_caller(self.dependant)
        query_names = _query_names(self.dependant)

        async def check_and_run(request: JsonRequest) -> Response:
            # Before a connection is acquired: anonymous callers must not exhaust the pool.
            if must_have_caller:
                await check_caller(request)
            check_query(request, query_names)
            return await run(request)

        self.handler = check_and_run
        return check_and_run

    def wrap(self, handle: Handler) -> Handler:
        """For subclasses: the handler with the work that surrounds it."""
        return handle


def check_query(connection: HTTPConnection, known: frozenset[str]) -> None:
    """Refuse unknown query parameters, so that a misspelt filter does not select everything."""
    if not connection.scope["query_string"]:
        return
    unknown = [name for name in connection.query_params if name not in known]
    if unknown:
        raise RequestValidationError(
            [{"type": "extra_forbidden", "loc": ("query", name), "msg": "unknown"} for name in unknown]
        )


def _query_names(dependant: Dependant) -> frozenset[str]:
    """The names of a route's query parameters, as clients send them."""
    own = [name for field in dependant.query_params for name in _names_of(field.field_info, field.alias)]
    return frozenset(own).union(*(_query_names(part) for part in dependant.dependencies))


def _names_of(info: FieldInfo, name: str) -> Iterator[str]:
    """The names of a query parameter; of a model, those of its fields."""
    kind = info.annotation
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for field_name, field in kind.model_fields.items():
            yield from _names_of(field, field_name)
    else:
        yield from names_of(info, name)


def make_router(
    *,
    prefix: str = "",
    tags: Sequence[str] = (),
    route_class: type[CheckedRoute] = CheckedRoute,
    include_in_schema: bool = True,
) -> APIRouter:
    """A router whose operation ids are the names of its functions, for generated clients."""
    return APIRouter(
        prefix=prefix,
        tags=list(tags),
        route_class=route_class,
        include_in_schema=include_in_schema,
        generate_unique_id_function=lambda route: route.name,
    )


def stores_no_response(endpoint: Endpoint) -> Endpoint:
    """Mark a route that returns secrets: its response is not stored, and a repeat runs again."""
    cast(Any, endpoint).stores_no_response = True
    return endpoint


CostOf = Callable[[Request], Awaitable[int]]


def expensive(cost_of: CostOf) -> Callable[[Endpoint], Endpoint]:
    """Mark a `UnitOfWork` route whose work is large: few run at a time, and each counts as several requests.

    `cost_of` returns how many. It reads the request before it was validated, and never refuses it.
    """

    def mark(endpoint: Endpoint) -> Endpoint:
        cast(Any, endpoint).cost_of = cost_of
        return endpoint

    return mark


Around = Callable[[Request], AbstractAsyncContextManager[object]]


def within(around: Around) -> Callable[[Endpoint], Endpoint]:
    """Mark a route to run within a context, entered before its transaction and left after it."""

    def mark(endpoint: Endpoint) -> Endpoint:
        cast(Any, endpoint).runs_within = around
        return endpoint

    return mark


def keep_nothing(request: Request) -> None:
    """Do not store this response for its idempotency key: it holds a secret, or a repeat must run again."""
    request.state.keeps_nothing = True


class UnitOfWork(CheckedRoute):
    """Begins the transaction, runs the endpoint, stores the response, commits, and then responds."""

    def wrap(self, handle: Handler) -> Handler:
        return self._reader(handle) if self.methods <= SAFE_METHODS else self._changer(handle)

    def _reader(self, handle: Handler) -> Handler:
        cost_of: CostOf | None = getattr(self.endpoint, "cost_of", None)

        async def read(request: JsonRequest) -> Response:
            database: Database = request.app.state.database
            async with database.connection() as db:
                request.state.db = db
                return await handle(request)

        async def read_much(request: JsonRequest) -> Response:
            assert cost_of is not None
            await request.body()  # what is received after it is the client's disconnect
            await charge_caller(request, await cost_of(request))
            async with _expensive_place(request):
                return await read(request)

        return read if cost_of is None else read_much

    def _changer(self, handle: Handler) -> Handler:
        keeps_responses = not getattr(self.endpoint, "stores_no_response", False)
        route = self.name
        around: Around | None = getattr(self.endpoint, "runs_within", None)
        cost_of: CostOf | None = getattr(self.endpoint, "cost_of", None)

        async def change(request: JsonRequest) -> Response:
            # Read before the transaction begins: a slow client must not keep it open.
            body = await request.json_body()
            claim = _claim(request, route, body) if keeps_responses else None
            database: Database = request.app.state.database
            if around is None and cost_of is None:
                return await database.run(lambda db: _once(db, request, handle, claim), claim)
            async with _surroundings(request, around, cost_of):
                return await database.run(lambda db: _once(db, request, handle, claim), claim)

        return change


class Staged(CheckedRoute):
    """For routes with slow work between transactions: no transaction is open; `InTransaction` runs one.

    Responses are not stored for idempotency keys, so each step must be safe to repeat.
    """


@asynccontextmanager
async def _surroundings(
    request: JsonRequest, around: Around | None, cost_of: CostOf | None
) -> AsyncGenerator[None]:
    """The context of a route that is marked by `within` or `expensive`."""
    if cost_of is not None:
        await charge_caller(request, await cost_of(request))
    async with AsyncExitStack() as entered:
        if around is not None:
            await entered.enter_async_context(around(request))
        if cost_of is not None:
            # Taken last: requests in a queue must not keep it from others.
            await entered.enter_async_context(_expensive_place(request))
        yield


class Gathered(CheckedRoute):
    """For routes whose service decides several requests in one transaction, which it begins itself.

    The endpoint gets the request's use of its key (`KeyClaim`) and returns a response that the service has
    stored for it.
    """

    def wrap(self, handle: Handler) -> Handler:
        route = self.name

        async def run(request: JsonRequest) -> Response:
            request.state.claim = _claim(request, route, await request.json_body())
            return await handle(request)

        return run


def stored_json(status: int, answer: BaseModel) -> StoredResponse:
    body = answer.model_dump_json(by_alias=True).encode()
    return StoredResponse(status, {"content-type": "application/json"}, body)


def response_of(stored: StoredResponse) -> Response:
    return Response(stored.body, stored.status, stored.headers)


@asynccontextmanager
async def _expensive_place(request: Request) -> AsyncGenerator[None]:
    """One of the few places for expensive work, until the block ends."""
    places: Places = request.app.state.expensive
    await places.take()
    try:
        if await request.is_disconnected():
            raise ClientDisconnect  # the client is gone; its work would only delay others
        yield
    finally:
        places.release()


async def _once(db: Db, request: JsonRequest, handle: Handler, claim: Claim | None) -> Response:
    request.state.db = db
    if claim is None:
        return await handle(request)
    if claim.repeated:
        stored = await claim.stored_response(db)
        return Response(stored.body, stored.status, {**stored.headers, "idempotency-replayed": "true"})
    response = await handle(request)
    if getattr(request.state, "keeps_nothing", False):
        return response
    headers = {name: response.headers[name] for name in REPLAYED_HEADERS if name in response.headers}
    claim.keep(StoredResponse(response.status_code, headers, bytes(response.body)))
    return response


def _claim(request: JsonRequest, route: str, body: bytes) -> Claim | None:
    key = request.headers.get("idempotency-key")
    principal = request.scope["state"].get("principal")
    if key is None or not isinstance(principal, Principal):
        return None
    # The path's values, not the path: a path and its /v1 alias are the same request.
    where = f"{sorted(request.path_params.items())} ".encode() + request.scope["query_string"]
    return Claim(
        principal_id=principal.id,
        roles=principal.roles,
        method=request.method,
        route=route,
        key=key,
        request=where + b"\n" + body,
    )


async def _open_db(request: Request) -> Db:
    return request.state.db


OpenDb = Annotated[Db, Depends(_open_db)]
"""The request's connection: in a transaction on routes that change, outside of one on routes that read."""


async def _key_claim(request: Request) -> Claim | None:
    return request.state.claim


KeyClaim = Annotated[Claim | None, Depends(_key_claim)]
"""On `Gathered` routes: the request's use of its idempotency key, if it has one."""


async def _transact(request: Request) -> Transact:
    return request.app.state.database.run


InTransaction = Annotated[Transact, Depends(_transact)]
"""On `Staged` routes: runs work in its own transaction."""


def part_of(app: FastAPI, kind: type[T]) -> T:
    """The value of this type that the role provides."""
    return app.state.wired[kind]


def wired(kind: type[T]) -> Callable[[Request], Awaitable[T]]:
    """A dependency: the value of this type that the role provides, so that domains read no settings."""

    async def find(request: Request) -> T:
        return part_of(request.app, kind)

    return find
