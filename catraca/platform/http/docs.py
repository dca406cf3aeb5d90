"""What a developer reads: the OpenAPI document, completed, and a page that shows it with no other site."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Response
from fastapi.routing import iter_route_contexts

from catraca.platform.errors import NotFound
from catraca.platform.http.problems import document_problems
from catraca.platform.http.route import SAFE_METHODS, UnitOfWork, make_router

DESCRIPTION = """
Rides on demand, community rides and appointments: many hands reach for one thing, exactly one gets it.

### Who you are
Send `Authorization: Bearer <token>`. Tokens are JWTs: from `POST /v1/auth/token` with a password, from
`catraca token` on the server, or from the identity provider the server is set up with. A token for someone
not yet known makes the person on first use.

### When a request is refused
The answer is `application/problem+json` (RFC 9457). Programs look at `code`, which is stable; people read
`detail`, in Portuguese or English after `Accept-Language`. `errors` says which fields are wrong. Quote
`request_id` (also the header `X-Request-Id`; send your own to find it again) when you report a problem.
After 429 and 503, try again after `Retry-After` seconds.

### Repeating safely
A lost answer leaves you not knowing. Send `Idempotency-Key` with what changes something, and repeat the very
same request with the same key: it is done once, and a repeat gets the first answer again, marked
`Idempotency-Replayed: true`. The same key with another request is refused (422).

### What is taken
UTF-8 JSON, not compressed. Unknown fields, duplicate keys, NUL characters and numbers beyond 64 bits are
refused.
"""
PLATFORM_TAGS = {"health": "Is it alive, is it ready, and its figures."}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Any text of your own, one for each intended change; repeat it to repeat safely.",
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
    # Of that package only the page's files are used, which are Swagger UI's own.
    return files("fastapi_swagger").joinpath("resources", name).read_bytes()


class DocumentedApp(FastAPI):
    """An application whose OpenAPI document also says what holds for all routes."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            document_problems(document)
            _document_idempotency(document, self)
        return super().openapi()


def tags_metadata(tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"name": name, "description": text} for name, text in {**tags, **PLATFORM_TAGS}.items()]


def _document_idempotency(document: dict[str, Any], app: FastAPI) -> None:
    keeping = {
        (context.path_format, method.lower())
        for context in iter_route_contexts(app.routes)
        if isinstance(route := context.original_route, UnitOfWork)
        if not getattr(route.endpoint, "stores_no_response", False)
        for method in route.methods - SAFE_METHODS
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if (path, method) in keeping and operation.get("security"):
                operation.setdefault("parameters", []).append(IDEMPOTENCY_KEY)
