"""Refusals as `application/problem+json` (RFC 9457), in the client's language."""

from http import HTTPStatus
from typing import Any, get_args

import msgspec
from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core.core_schema import ErrorType

from catraca.platform.errors import MethodNotAllowed, Refusal, RequestInvalid
from catraca.platform.texts import Language, negotiate, text, words

MEDIA_TYPE = "application/problem+json"
SCHEMA_REF = "#/components/schemas/Problem"
MAX_ERRORS = 20
PYDANTICS_OWN = frozenset(get_args(ErrorType)) - {"value_error", "assertion_error"}


class WrongField(BaseModel):
    where: str
    code: str
    message: str


class Problem(BaseModel):
    """A refused request (RFC 9457). `code` is stable; `detail` is in the client's language."""

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
    retry_after_seconds: int = Field(default=0, description="Try again after this time.")
    errors: list[WrongField] = Field(default=[], description="The invalid fields.")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The argument `responses` of a route that refuses with these statuses."""
    return {status: _documented(HTTPStatus(status).phrase) for status in statuses}


def document_problems(openapi: dict[str, Any]) -> None:
    """Replace FastAPI's error responses in an OpenAPI document by ours."""
    schemas = openapi.setdefault("components", {}).setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas |= _problem_schemas()
    for operations in openapi["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            # Every route refuses unknown query parameters.
            if "422" not in responses or "HTTPValidationError" in str(responses["422"]):
                responses["422"] = _documented(HTTPStatus.UNPROCESSABLE_ENTITY.phrase)
            responses.setdefault("default", _documented("Any other error"))


def _documented(description: str) -> dict[str, Any]:
    return {"description": description, "content": {MEDIA_TYPE: {"schema": {"$ref": SCHEMA_REF}}}}


def _problem_schemas() -> dict[str, Any]:
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs"), "Problem": schema}


def problem_response(refusal: Refusal, *, accept_language: str | None, request_id: str) -> Response:
    """The response to a refused request, with the refusal's data as members."""
    language = negotiate(accept_language)
    retry_after_seconds = refusal.retry_after_seconds
    data = public_data(refusal)
    body = {
        "type": f"urn:catraca:problem:{refusal.code}",
        "title": HTTPStatus(refusal.status).phrase,
        "status": refusal.status,
        "code": refusal.code,
        "detail": localized_detail(refusal, language),
        "request_id": request_id,
        **data,
    }
    headers = {"content-language": language}
    if retry_after_seconds is not None:
        headers["retry-after"] = str(retry_after_seconds)
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = refusal.challenge
    if isinstance(refusal, MethodNotAllowed):
        headers["allow"] = ", ".join(refusal.allowed)
    return Response(msgspec.json.encode(body, enc_hook=str), refusal.status, headers, MEDIA_TYPE)


def public_data(refusal: Refusal) -> dict[str, object]:
    """The refusal's data for programs."""
    wait_seconds = refusal.retry_after_seconds
    return refusal.data if wait_seconds is None else {**refusal.data, "retry_after_seconds": wait_seconds}


def localized_detail(refusal: Refusal, language: Language) -> str:
    """The refusal's text for people."""
    return text(refusal.text_name, language, _with_reason(public_data(refusal), language))


def _with_reason(data: dict[str, object], language: Language) -> dict[str, object]:
    """With the text of the code in `reason`, if it has one."""
    key = f"reasons.{data.get('reason')}"
    return {**data, "reason": text(key, language, data)} if key in words(language) else data


def invalid_request(error: RequestValidationError, *, accept_language: str | None) -> RequestInvalid:
    """The refusal of an invalid request: lists the invalid fields, without their values."""
    language = negotiate(accept_language)
    return RequestInvalid(errors=[_describe(entry, language) for entry in error.errors()[:MAX_ERRORS]])


def _describe(entry: Any, language: Language) -> dict[str, str]:
    where = [str(part) for part in entry["loc"]]
    # The name of an unknown field is the client's text, so it is cut.
    return {"where": ".".join(where)[:200], "code": entry["type"], "message": _message(entry, language)[:200]}


def _message(entry: Any, language: Language) -> str:
    """In the client's language, without pydantic's own message, which may quote the value."""
    kind: str = entry["type"]
    known = f"validation.{kind}"
    if known in words(language):
        context = {name: str(value).replace(" or ", ", ") for name, value in entry.get("ctx", {}).items()}
        return text(known, language, context)
    return text("validation.other", language) if kind in PYDANTICS_OWN else str(entry["msg"])
