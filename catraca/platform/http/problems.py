"""Refusals as `application/problem+json` (RFC 9457), in the caller's language."""

from http import HTTPStatus
from typing import Any, get_args

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core.core_schema import ErrorType
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from catraca.platform.errors import (
    BodyMalformed,
    InternalError,
    MethodNotAllowed,
    NotFound,
    Refusal,
    RequestInvalid,
)
from catraca.platform.texts import Language, negotiate, text, words

MEDIA_TYPE = "application/problem+json"
SCHEMA_REF = "#/components/schemas/Problem"
ERRORS_TOLD = 20
PYDANTICS_OWN = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error"}


class WrongField(BaseModel):
    where: str
    code: str
    message: str


class Problem(BaseModel):
    """Why a request was refused (RFC 9457). `code` is stable; `detail` is in the caller's language."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:catraca:problem:not_found",
                    "title": "Not Found",
                    "status": 404,
                    "code": "not_found",
                    "detail": "There is nothing here, or you may not see it.",
                    "request_id": "0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60",
                }
            ]
        },
    )

    type: str
    title: str
    status: int
    code: str = Field(description="Stable, for programs.")
    detail: str = Field(description="For people, in the language of `Accept-Language`.")
    request_id: str = Field(description="Quote it when you report a problem.")
    retry_after_seconds: int = Field(default=0, description="When trying again makes sense.")
    errors: list[WrongField] = Field(default=[], description="Which fields are wrong, and why.")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: the statuses with which it refuses, each a problem."""
    return {status: _documented(HTTPStatus(status).phrase) for status in statuses}


def document_problems(openapi: dict[str, Any]) -> None:
    """Complete an OpenAPI document: what the framework says of refusals gives way to how we refuse."""
    schemas = openapi.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= _problem_schemas()
    for operations in openapi["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            if "HTTPValidationError" in str(responses.get("422")):
                responses["422"] = _documented(HTTPStatus.UNPROCESSABLE_ENTITY.phrase)
            responses.setdefault("default", _documented("Any other refusal"))


def _documented(description: str) -> dict[str, Any]:
    return {"description": description, "content": {MEDIA_TYPE: {"schema": {"$ref": SCHEMA_REF}}}}


def _problem_schemas() -> dict[str, Any]:
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "Problem": schema}


def problem_response(refusal: Refusal, *, accept_language: str | None, request_id: str) -> Response:
    """The answer a refusal gives, with its data as further members."""
    language = negotiate(accept_language)
    retry_after_seconds = refusal.retry_after_seconds
    data = told_data(refusal)
    body = {
        "type": f"urn:catraca:problem:{refusal.code}",
        "title": HTTPStatus(refusal.status).phrase,
        "status": refusal.status,
        "code": refusal.code,
        "detail": spoken_detail(refusal, language),
        "request_id": request_id,
        **data,
    }
    headers = {"content-language": language}
    if retry_after_seconds is not None:
        headers["retry-after"] = str(retry_after_seconds)
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return Response(msgspec.json.encode(body, enc_hook=str), refusal.status, headers, MEDIA_TYPE)


def told_data(refusal: Refusal) -> dict[str, object]:
    """What a refusal says to programs beside its code."""
    wait_seconds = refusal.retry_after_seconds
    return refusal.data if wait_seconds is None else {**refusal.data, "retry_after_seconds": wait_seconds}


def spoken_detail(refusal: Refusal, language: Language) -> str:
    """What a refusal says to people."""
    return text(f"refusals.{refusal.code}", language, _spoken(told_data(refusal), language))


def _spoken(data: dict[str, object], language: Language) -> dict[str, object]:
    """A `reason` is a code like any other: programs get it as it is, people get its words."""
    key = f"reasons.{data.get('reason')}"
    return {**data, "reason": text(key, language, data)} if key in words(language) else data


async def answer_refusal(request: Request, error: Exception) -> Response:
    """Exception handler: every refusal raised below the routes ends here."""
    assert isinstance(error, Refusal)
    return problem_response(
        error, accept_language=request.headers.get("accept-language"), request_id=request.state.request_id
    )


async def answer_invalid(request: Request, error: Exception) -> Response:
    """Exception handler: says where the request is wrong, and never repeats what was sent."""
    assert isinstance(error, RequestValidationError)
    language = negotiate(request.headers.get("accept-language"))
    errors = [_describe(entry, language) for entry in error.errors()[:ERRORS_TOLD]]
    return await answer_refusal(request, RequestInvalid(errors=errors))


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """Exception handler: what the router and the framework refuse."""
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, ClientDisconnect):
        raise error.__cause__
    response = await answer_refusal(request, _refusal_behind(error))
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        response.headers["allow"] = ", ".join(_methods_of(request))
    return response


def _methods_of(request: Request) -> list[str]:
    """All that this path takes; the router names only those of the first route that has it."""
    path = request.scope["path"]
    contexts = iter_route_contexts(request.app.routes)
    found = [context.methods or set() for context in contexts if context.path_regex.match(path)]
    return sorted(set[str]().union(*found))


def _refusal_behind(error: HTTPException) -> Refusal:
    if isinstance(error.__cause__, Refusal):  # the framework turns what our parser raises into its own
        return error.__cause__
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return BodyMalformed(reason="unreadable")
    return {404: NotFound, 405: MethodNotAllowed}.get(error.status_code, InternalError)()


def _describe(entry: Any, language: Language) -> dict[str, str]:
    where = [str(part) for part in entry["loc"]]
    # An unknown field's name is the caller's own text: say where, do not echo at length.
    return {"where": ".".join(where)[:200], "code": entry["type"], "message": _message(entry, language)[:200]}


def _message(entry: Any, language: Language) -> str:
    """In the caller's language; pydantic's own words, which may quote the value, are not passed on."""
    kind: str = entry["type"]
    known = f"validation.{kind}"
    if known in words(language):
        context = {name: str(value).replace(" or ", ", ") for name, value in entry.get("ctx", {}).items()}
        return text(known, language, context)
    return text("validation.other", language) if kind in PYDANTICS_OWN else str(entry["msg"])
