"""The docs page, the OpenAPI document and the metrics."""

import re

import httpx

from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.support.http import served


async def test_docs_page_loads_nothing_from_other_sites(api: httpx.AsyncClient) -> None:
    page = await api.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy
    links = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(links) == 4
    for link in links:
        answer = await api.get(f"/{link}")
        assert answer.status_code == 200, link
        assert not link.startswith(("http", "//"))
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert "javascript" in (await api.get("/docs/swagger-ui-bundle.js")).headers["content-type"]
    assert (await api.get("/docs/start.js")).text.startswith("SwaggerUIBundle(")
    for wrong in ("/docs/secret", "/docs/..%2fmain.py", "/docs/__init__.py"):
        assert (await api.get(wrong)).status_code == 404
    # Only the page has this policy.
    assert "script-src" not in (await api.get("/openapi.json")).headers["content-security-policy"]


async def test_openapi_documents_problems_of_all_routes(api: httpx.AsyncClient) -> None:
    document = (await api.get("/openapi.json")).json()
    for words in ("Authorization: Bearer", "application/problem+json", "Idempotency-Key", "Retry-After"):
        assert words in document["info"]["description"]
    assert document["servers"] == [{"url": "/", "description": "This server"}]
    assert "Problem" in document["components"]["schemas"]
    assert "HTTPValidationError" not in str(document)
    described = {tag["name"] for tag in document["tags"] if tag["description"]}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert set(operation["tags"]) <= described, where
            assert operation["summary"], where
            problem = operation["responses"]["default"]["content"]["application/problem+json"]
            assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}, where


async def test_idempotency_keys_are_documented_where_supported(api: httpx.AsyncClient) -> None:
    paths = (await api.get("/openapi.json")).json()["paths"]

    def takes_key(method: str, path: str) -> bool:
        return "Idempotency-Key" in [p["name"] for p in paths[path][method].get("parameters", [])]

    assert takes_key("patch", "/v1/me")
    assert takes_key("delete", "/v1/users/{user_id}")
    assert not takes_key("get", "/v1/me")
    assert not takes_key("post", "/v1/auth/token")
    assert not takes_key("post", "/v1/users/{user_id}/password-link")


async def test_metrics_are_public_or_for_operators_by_setting(parts: Parts, api: httpx.AsyncClient) -> None:
    figures = await api.get("/metrics")
    assert figures.status_code == 200
    assert "catraca_http_requests_total{" in figures.text
    async with served(parts, metrics_public=False) as server, server.client() as client:
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers=bearer("driver"))).status_code == 403
        assert (await client.get("/metrics", headers=bearer("operator"))).status_code == 200
        assert (await client.get("/livez")).status_code == 200
