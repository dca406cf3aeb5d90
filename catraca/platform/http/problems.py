"""Refusals as `application/problem+json` (RFC 9457), in the caller's language."""

from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from catraca.platform.errors import (
    InternalError,
    MethodNotAllowed,
    NotFound,
    Refusal,
    RequestInvalid,
)
from catraca.platform.texts import negotiate, text

MEDIA_TYPE = "application/problem+json"


def problem_response(refusal: Refusal, *, accept_language: str | None, request_id: str) -> Response:
    """The answer a refusal gives, with its data as further members."""
    language = negotiate(accept_language)
    retry_after_seconds = refusal.retry_after_seconds
    data = dict(refusal.data)
    if retry_after_seconds is not None:
        data["retry_after_seconds"] = retry_after_seconds
    body = {
        "type": f"urn:catraca:problem:{refusal.code}",
        "title": HTTPStatus(refusal.status).phrase,
        "status": refusal.status,
        "code": refusal.code,
        "detail": text(f"refusals.{refusal.code}", language, data),
        "request_id": request_id,
        **data,
    }
    headers = {"content-language": language}
    if retry_after_seconds is not None:
        headers["retry-after"] = str(retry_after_seconds)
    if refusal.status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return Response(msgspec.json.encode(body, enc_hook=str), refusal.status, headers, MEDIA_TYPE)


async def answer_refusal(request: Request, error: Exception) -> Response:
    """Exception handler: every refusal raised below the routes ends here."""
    assert isinstance(error, Refusal)
    return problem_response(
        error, accept_language=request.headers.get("accept-language"), request_id=request.state.request_id
    )


async def answer_invalid(request: Request, error: Exception) -> Response:
    """Exception handler: says where the request is wrong, and never repeats what was sent."""
    assert isinstance(error, RequestValidationError)
    errors = [_describe(entry) for entry in error.errors()[:20]]
    return await answer_refusal(request, RequestInvalid(errors=errors))


async def answer_http_exception(request: Request, error: Exception) -> Response:
    """Exception handler: what the router itself refuses."""
    assert isinstance(error, HTTPException)
    refusal = {404: NotFound, 405: MethodNotAllowed}.get(error.status_code, InternalError)()
    response = await answer_refusal(request, refusal)
    if error.headers and "Allow" in error.headers:
        response.headers["allow"] = error.headers["Allow"]
    return response


def _describe(entry: Any) -> dict[str, str]:
    where = [str(part) for part in entry["loc"]]
    # An unknown field's name is the caller's own text: say where, do not echo at length.
    return {"where": ".".join(where)[:200], "code": entry["type"], "message": entry["msg"][:200]}
