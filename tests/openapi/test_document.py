"""The OpenAPI document: names, security, examples and errors."""

import re
from collections.abc import Iterator
from typing import Any

METHODS = {"get", "post", "put", "patch", "delete"}


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


def test_every_operation_documents_invalid_requests(document: dict[str, Any]) -> None:
    assert [where for where, one in operations(document) if "422" not in one["responses"]] == []
