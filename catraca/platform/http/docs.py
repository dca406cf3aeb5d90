"""The OpenAPI document, completed, and a page that shows it without loading anything from other sites."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_fields_from_routes
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from catraca.platform.errors import NotFound
from catraca.platform.http.caller import needs_caller
from catraca.platform.http.problems import document_problems
from catraca.platform.http.route import SAFE_METHODS, CheckedRoute, Gathered, UnitOfWork, make_router

DESCRIPTION = """ Rides on demand, community rides and appointments: many clients compete for one thing, and
exactly one gets it.

### Authentication
Send `Authorization: Bearer <token>`. Tokens are JWTs: from `POST /v1/auth/token` with a password, from
`catraca token` on the server, or from the server's identity provider. A token for an unknown person creates
the person at first use.

### Errors
Errors are `application/problem+json` (RFC 9457). Programs use `code`, which is stable; people read `detail`,
in Portuguese or English according to `Accept-Language`. `errors` lists the invalid fields. Quote `request_id`
(also the header `X-Request-Id`, which you may send yourself) when you report a problem. After 429 and 503,
try again after `Retry-After` seconds.

### Safe retries
Send `Idempotency-Key` with each request that changes something. If the response is lost, send the same
request again with the same key: it takes effect once, and the retry gets the first response again, with the
header `Idempotency-Replayed: true`. The same key with a different request is refused (422).

### Bodies and queries
Bodies are UTF-8 JSON, not compressed. Unknown fields, unknown query parameters, duplicate keys, NUL
characters and numbers beyond 64 bits are refused.
"""
PLATFORM_TAGS = {"health": "Liveness, readiness and metrics."}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A text of your choice, one for each change; send it again with a retry.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}

ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Catraca API</title>
<link rel="icon" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#page",
  deepLinking: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  validatorUrl: null,
});
"""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {"content-security-policy": PAGE_POLICY, "cache-control": "no-cache"}
ASSET_HEADERS = {"cache-control": "public, max-age=3600"}

router = make_router(include_in_schema=False)


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    return JSONResponse(request.app.openapi())


@router.get("/docs")
async def page() -> Response:
    return Response(PAGE, headers=PAGE_HEADERS, media_type="text/html")


@router.get("/docs/start.js")
async def start() -> Response:
    return Response(START, headers=PAGE_HEADERS, media_type="text/javascript")


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    if name not in ASSETS:
        raise NotFound
    return Response(_read(name), headers=ASSET_HEADERS, media_type=ASSETS[name])


@cache
def _read(name: str) -> bytes:
    # Of that package we use only the files of Swagger UI.
    return files("fastapi_swagger").joinpath("resources", name).read_bytes()


class DocumentedApp(FastAPI):
    """An application whose OpenAPI document has the problems, headers and security of all routes."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            _restore_examples(document, self)
            document_problems(document)
            for route, operation in _operations(document, self):
                operation.setdefault("security", [])  # an empty list: the operation needs no token
                if _stores_responses(route):
                    operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
        return super().openapi()


def tags_metadata(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "description": text} for name, text in {**tags, **PLATFORM_TAGS}.items()]


def _restore_examples(document: dict[str, Any], app: FastAPI) -> None:
    """Put the examples of models back as they were written: FastAPI removes every null from them."""
    models: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (field.name, field.mode, TypeAdapter(field.field_info.annotation))
        for field in get_fields_from_routes(app.routes)
        if field.field_info.annotation is not None
    ]
    _, schemas = TypeAdapter.json_schemas(models)
    for name, schema in schemas["$defs"].items():
        if "examples" in schema:
            document["components"]["schemas"][name]["examples"] = schema["examples"]


def _operations(document: dict[str, Any], app: FastAPI) -> Iterator[tuple[CheckedRoute, dict[str, Any]]]:
    """Each documented route with its operation."""
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        if isinstance(route, CheckedRoute) and route.include_in_schema:
            for method in route.methods:
                yield route, document["paths"][context.path_format][method.lower()]


def _stores_responses(route: CheckedRoute) -> bool:
    """True if a repeat with the same idempotency key gets the stored response."""
    changes = isinstance(route, (UnitOfWork, Gathered)) and not route.methods <= SAFE_METHODS
    return (
        changes and needs_caller(route.dependant) and not getattr(route.endpoint, "stores_no_response", False)
    )
