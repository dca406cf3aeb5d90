"""The OpenAPI document: names, security, examples and errors."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from catraca.platform.http.caller import needs_caller
from catraca.platform.http.route import CheckedRoute

# Inputs whose limit is not in the document: that of the URL, of the body, or of a file read in parts.
LIMITED_ELSEWHERE = re.compile(r"path token|text/csv|x-ndjson|fence\.coordinates")
BOUNDED_FORMATS = {"uuid", "date", "date-time"}
METHODS = {"get", "post", "put", "patch", "delete"}
# Routes without a caller that are not simply public: a setting decides, or the route has its own token.
OTHER_SECURITY = {"metrics": [{}, {"token": []}], "read_status": [{"status_token": []}]}


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_schema_names_are_plain_and_unique(document: dict[str, Any]) -> None:
    names = list(document["components"]["schemas"])
    assert [name for name in names if not re.fullmatch("[A-Z][A-Za-z0-9]+", name)] == []


def test_operation_ids_are_unique_and_head_is_not_listed(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    assert {where.split()[0] for where, _ in operations(document)} == METHODS


def test_operations_without_a_caller_need_no_token(app: FastAPI, document: dict[str, Any]) -> None:
    expected = {
        route.unique_id: [{"token": []}]
        if needs_caller(route.dependant)
        else OTHER_SECURITY.get(route.name, [])
        for context in iter_route_contexts(app.routes)
        if isinstance(route := context.original_route, CheckedRoute) and route.include_in_schema
    }
    assert {one["operationId"]: one["security"] for _, one in operations(document)} == expected
    assert set(document["components"]["securitySchemes"]) == {"token", "status_token"}


def test_every_operation_documents_invalid_requests(document: dict[str, Any]) -> None:
    assert [where for where, one in operations(document) if "422" not in one["responses"]] == []


def examples(node: Any, where: str = "#") -> Iterator[tuple[str, Any, Any]]:
    """Every example below this node: its place, its schema and its value."""
    if isinstance(node, list):
        for index, part in enumerate(node):
            yield from examples(part, f"{where}/{index}")
    if not isinstance(node, dict):
        return
    # Parameters and media types have a schema and name their examples; schemas list them.
    schema = node.get("schema", node)
    given = node.get("examples", [])
    values = [one["value"] for one in given.values()] if isinstance(given, dict) else given
    for value in [*values, *([node["example"]] if "example" in node else [])]:
        yield where, schema, value
    for name, part in node.items():
        if name not in ("example", "examples"):
            yield from examples(part, f"{where}/{name}")


def test_examples_match_their_schemas(document: dict[str, Any]) -> None:
    found = list(examples(document))
    assert len(found) > 100
    wrong = [
        f"{where}: {error.message} at {error.instance_path}"
        for where, schema, value in found
        for error in jsonschema_rs.Draft202012Validator(
            {**schema, "components": document["components"]}, validate_formats=True
        ).iter_errors(value)
    ]
    assert wrong == []


def unlimited(schema: dict[str, Any], where: str, schemas: dict[str, Any]) -> Iterator[str]:
    """Every place below this input where a caller may send a text, number or list of any size."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for part in [one for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, [])]:
        yield from unlimited(part, where, schemas)
    kind = None if {"enum", "const"} & schema.keys() else schema.get("type")
    if kind == "string" and schema.get("format") not in BOUNDED_FORMATS and "pattern" not in schema:
        needed = [{"maxLength"}]
    elif kind in ("integer", "number"):
        needed = [{"minimum", "exclusiveMinimum"}, {"maximum", "exclusiveMaximum"}]
    else:
        needed = [{"maxItems"}] if kind == "array" else []
    if any(not keywords & schema.keys() for keywords in needed):
        yield where
    for part in [schema["items"]] if "items" in schema else schema.get("prefixItems", []):
        yield from unlimited(part, f"{where}[]", schemas)
    for name, part in schema.get("properties", {}).items():
        yield from unlimited(part, f"{where}.{name}", schemas)
    if schema.get("additionalProperties", False) is not False:
        yield f"{where}.*"


def test_every_input_has_a_limit(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    found: set[str] = set()
    for where, one in operations(document):
        for parameter in one.get("parameters", []):
            name = f"{where} {parameter['in']} {parameter['name']}"
            found |= set(unlimited(parameter["schema"], name, schemas))
        for kind, content in one.get("requestBody", {"content": {}})["content"].items():
            found |= set(unlimited(content["schema"], f"{where} {kind}", schemas))
    assert sorted(one for one in found if not LIMITED_ELSEWHERE.search(one)) == []
