"""What a route runs: its functions, prepared once at the start from FastAPI's declaration of the route.

FastAPI would interpret the declaration at every request. The rules are the same: the body is parsed first,
then the dependencies run in their order, then path, query, headers and body are validated, and all errors of
one request are answered together.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from inspect import iscoroutinefunction
from types import UnionType
from typing import Any, Final, Union, cast, get_args, get_origin

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import AliasChoices, BaseModel

from catraca.platform.http.strict_json import JsonRequest

Handler = Callable[[JsonRequest], Coroutine[Any, Any, Response]]
Errors = list[dict[str, Any]]
Read = Callable[[Request], Mapping[str, Any]]

MISSING: Final = object()
NO_STATUS: Final = 0
NO_BODY_STATUSES = frozenset({204, 304})


def prepare(route: APIRoute) -> Handler:
    """The function that answers the requests of this route, until it has a response or raises."""
    run = _Function(route.dependant)
    takes_body = route.body_field is not None
    sets_response = _takes_response(route.dependant)
    render = _renderer(route)

    async def handle(request: JsonRequest) -> Response:
        body: Any = MISSING
        if takes_body and await request.body():
            body = await request.json()
        draft = _draft() if sets_response else None
        call = _Call(request, body, draft)
        arguments = await run.arguments(call)
        if call.errors:
            raise RequestValidationError(call.errors)
        result = await run.function(**arguments)
        return result if isinstance(result, Response) else render(result, draft)

    return handle


class _Call:
    """One request on its way through the functions of its route."""

    __slots__ = ("body", "draft", "errors", "request", "results")

    def __init__(self, request: Request, body: Any, draft: Response | None) -> None:
        self.request = request
        self.body = body
        self.draft = draft
        self.errors: Errors = []
        # Of dependencies, so that each runs once.
        self.results: dict[Callable[..., Any], Any] = {}


class _Function:
    """The endpoint of a route, or a dependency, and where its arguments come from."""

    def __init__(self, dependant: Dependant) -> None:
        assert dependant.call is not None
        self.function: Final[Callable[..., Awaitable[Any]]] = dependant.call
        if not _is_async(self.function):
            raise TypeError(f"{self.function} must be a coroutine function: it runs on the event loop")
        self.name: Final = dependant.name
        self._dependencies: Final = [_Function(part) for part in dependant.dependencies]
        self._values: Final = [
            _value_of(field, source, read)
            for source, read, fields in (
                ("path", _path, dependant.path_params),
                ("query", _query, dependant.query_params),
                ("header", _headers, dependant.header_params),
            )
            for field in fields
        ]
        if len(dependant.body_params) > 1 or dependant.cookie_params or dependant.background_tasks_param_name:
            raise TypeError(f"{self.function} may take one body, no cookies and no background tasks")
        self._body: Final = dependant.body_params[0] if dependant.body_params else None
        self._request_name: Final = dependant.request_param_name or dependant.http_connection_param_name
        self._response_name: Final = dependant.response_param_name

    async def arguments(self, call: _Call) -> dict[str, Any]:
        """The arguments for `function`. Invalid ones are left out, and added to `call.errors`."""
        found: dict[str, Any] = {}
        for part in self._dependencies:
            if part.function in call.results:
                result = call.results[part.function]
            else:
                errors = len(call.errors)
                arguments = await part.arguments(call)
                if len(call.errors) > errors:
                    continue
                result = call.results[part.function] = await part.function(**arguments)
            if part.name is not None:
                found[part.name] = result
        for value in self._values:
            value.add_to(found, call)
        if self._body is not None:
            _add_valid(found, self._body, call.body, ("body",), call.errors)
        if self._request_name is not None:
            found[self._request_name] = call.request
        if self._response_name is not None:
            found[self._response_name] = call.draft
        return found


class _Value:
    """A value in the path, the query or the headers."""

    def __init__(self, field: Any, source: str, read: Read) -> None:
        self._field = field
        self._source = source
        self._read = read
        self._names = list(names_of(field.field_info, field.alias))
        self._is_list = _is_list(field.field_info.annotation)

    def add_to(self, found: dict[str, Any], call: _Call) -> None:
        sent = self._read(call.request)
        name = next((name for name in self._names if name in sent), self._names[0])
        given = MISSING
        if name in sent:
            given = cast(Any, sent).getlist(name) if self._is_list else sent[name]
        _add_valid(found, self._field, given, (self._source, name), call.errors)


class _Model:
    """A model whose fields are query parameters."""

    def __init__(self, field: Any, source: str, read: Read) -> None:
        self._field = field
        self._source = source
        self._read = read

    def add_to(self, found: dict[str, Any], call: _Call) -> None:
        _add_valid(found, self._field, dict(self._read(call.request)), (self._source,), call.errors)


def _value_of(field: Any, source: str, read: Read) -> _Value | _Model:
    annotation = field.field_info.annotation
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return _Model(field, source, read) if is_model else _Value(field, source, read)


def _add_valid(found: dict[str, Any], field: Any, given: Any, where: tuple[str, ...], errors: Errors) -> None:
    if given is MISSING:
        if field.field_info.is_required():
            errors.append({"type": "missing", "loc": where, "msg": "Field required", "input": None})
        else:
            found[field.name] = field.get_default()
        return
    value, wrong = field.validate(given, loc=where)
    if wrong:
        errors.extend(wrong)
    else:
        found[field.name] = value


def names_of(info: Any, name: str) -> Sequence[str]:
    """The names of a value, as clients send them."""
    alias = info.validation_alias
    if isinstance(alias, AliasChoices):
        return [str(choice) for choice in alias.choices]
    return [str(alias or info.alias or name)]


def _path(request: Request) -> Mapping[str, Any]:
    return request.path_params


def _query(request: Request) -> Mapping[str, Any]:
    return request.query_params


def _headers(request: Request) -> Mapping[str, Any]:
    return request.headers


def _is_list(annotation: Any) -> bool:
    """True if a value may be sent several times: for `list[str]`, and for `list[str] | None`."""
    if get_origin(annotation) in (Union, UnionType):
        return any(map(_is_list, get_args(annotation)))
    return get_origin(annotation) in (list, set, frozenset, tuple)


def _is_async(function: Callable[..., Any]) -> bool:
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def _takes_response(dependant: Dependant) -> bool:
    return dependant.response_param_name is not None or any(map(_takes_response, dependant.dependencies))


def _draft() -> Response:
    """A response for the status and the headers that a route sets while it runs."""
    draft = Response(status_code=NO_STATUS)
    draft.raw_headers.clear()
    return draft


def _renderer(route: APIRoute) -> Callable[[Any, Response | None], Response]:
    """The function that makes the response from what the endpoint returned."""
    field = route.response_field
    status = route.status_code or 200
    by_alias, exclude_none = route.response_model_by_alias, route.response_model_exclude_none

    def render(result: Any, draft: Response | None) -> Response:
        if field is None:
            body = b"null" if result is None else _unexpected(route, result)
        else:
            value, wrong = field.validate(result, loc=("response",))
            if wrong:
                raise TypeError(f"{route.path} returned what it does not declare: {wrong[0]['loc']}")
            body = field.serialize_json(value, by_alias=by_alias, exclude_none=exclude_none)
        if status in NO_BODY_STATUSES:
            body = b""
        response = Response(body, status, media_type="application/json")
        if draft is not None:
            response.status_code = draft.status_code or status
            response.raw_headers.extend(draft.raw_headers)
        return response

    return render


def _unexpected(route: APIRoute, result: object) -> bytes:
    raise TypeError(f"{route.path} declares no response, and returned {type(result).__name__}")
