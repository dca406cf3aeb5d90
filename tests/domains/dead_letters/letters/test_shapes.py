"""The shape of a body: its fields without values, limited in size."""

import json
from typing import Any

import pytest

from catraca.domains.dead_letters.letters.model import SHAPE_MAX_NODES, shape_of


def shape(value: Any) -> Any:
    return shape_of(json.dumps(value).encode())


def test_every_value_becomes_a_mark() -> None:
    assert shape({"a": "x", "b": 1, "c": 1.5, "d": True, "e": None, "f": {}, "g": []}) == {
        "a": "[text]",
        "b": "[number]",
        "c": "[number]",
        "d": "[boolean]",
        "e": "[null]",
        "f": {},
        "g": [],
    }
    assert [shape("x"), shape(7), shape(None)] == ["[text]", "[number]", "[null]"]


@pytest.mark.parametrize(
    "name", ["ana@example.com", "Ana Souza", "+5571987654321", "71987654321", "", "x" * 65, "é"]
)
def test_unusual_field_names_become_marks(name: str) -> None:
    assert shape({"ok": 1, name: 2}) == {"ok": "[number]", "[field 2]": "[number]"}


def test_list_is_cut_with_a_count_of_the_rest() -> None:
    assert shape([1, "a", None, True, 5]) == ["[number]", "[text]", "[null]", "... 2 more"]


def test_deep_values_are_cut() -> None:
    value: Any = "secret"
    for _ in range(20):
        value = {"in": [value]}
    assert shape(value) == {"in": [{"in": [{"in": ["..."]}]}]}


@pytest.mark.parametrize(
    "wide", [{f"f{n}": n for n in range(5000)}, {"a": [{f"f{n}": [1, 2, 3] for n in range(900)}] * 9}]
)
def test_wide_values_are_cut(wide: object) -> None:
    assert len(json.dumps(shape(wide))) < SHAPE_MAX_NODES * 40


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"NaN", b"[" * 100_000, b'{"a": 1} x'])
def test_body_that_is_not_json_has_no_shape(body: bytes) -> None:
    assert shape_of(body) is None
