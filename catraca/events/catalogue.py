"""The catalogue of events: fields, publishers and queues of each, read from the code."""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast
from uuid import UUID

import msgspec
from msgspec import inspect as types

from catraca.events import EVENTS, TOPOLOGY
from catraca.events.publishers import publishers_of
from catraca.platform.bus.topology import Queue, Topology
from catraca.platform.event import Event, encode, key_of

S = TypeVar("S", bound=msgspec.Struct)

EXAMPLE_MOMENT = datetime(2025, 8, 14, 12, tzinfo=UTC)
EXAMPLE_ID = UUID("0198a8b2-3c00-7000-8000-000000000001")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    kind: type[Event]
    key: str
    exchange: str
    says: str
    fields: Sequence[Field]
    publishers: Sequence[str]
    queues: Sequence[Queue]
    example: bytes


def catalogue(events: Iterable[type[Event]] = EVENTS, topology: Topology = TOPOLOGY) -> list[Entry]:
    """One entry per event, ordered by key."""
    return sorted((_entry(kind, topology) for kind in events), key=lambda entry: entry.key)


def _entry(kind: type[Event], topology: Topology) -> Entry:
    key = key_of(kind)
    return Entry(
        kind=kind,
        key=key,
        exchange=kind.exchange,
        says=says_of(kind),
        fields=[Field("event_type", f'"{key}"', "The routing key."), *fields_of(kind, about=kind.about)],
        publishers=publishers_of(kind),
        queues=topology.route(kind.exchange, key),
        example=encode(example_of(kind)),
    )


def says_of(kind: type[msgspec.Struct]) -> str:
    return inspect.getdoc(kind) or ""


def fields_of(kind: type[msgspec.Struct], *, about: str = "") -> list[Field]:
    """Name, type and description of each field; `about` is the field with the aggregate's id."""
    return [_field(one, about) for one in _fields(kind)]


def example_of(kind: type[S]) -> S:
    """An example of this kind, the same at every call."""
    return msgspec.convert(_example(types.type_info(kind)), kind)


def _fields(kind: type[msgspec.Struct]) -> Sequence[types.Field]:
    described = types.type_info(kind)
    assert isinstance(described, types.StructType)
    return described.fields


def _field(field: types.Field, about: str) -> Field:
    usual = {"timestamp": "When it happened.", about: "What it is about."}
    says = _noted(field.type).get("description") or usual.get(field.name, "")
    return Field(field.encode_name, words_for(field.type), says)


def _noted(kind: types.Type) -> dict[str, Any]:
    """The further values in `Meta`, such as the description."""
    noted = kind.extra_json_schema if isinstance(kind, types.Metadata) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return cast(dict[str, Any], noted or {})


def words_for(kind: types.Type) -> str:
    """The name of a type in JSON terms."""
    match kind:
        case types.Metadata():
            return words_for(kind.type)
        case types.UnionType():
            return " or ".join(words_for(one) for one in kind.types)
        case types.LiteralType():
            return " or ".join(f'"{value}"' for value in kind.values)
        case types.ListType() | types.VarTupleType():
            return f"list of {words_for(kind.item_type)}"
        case types.DictType():
            return f"object of {words_for(kind.value_type)}"
        case types.StructType():
            return f"object ({', '.join(one.encode_name for one in kind.fields)})"
        case _:
            return PLAIN_WORDS[type(kind)]


PLAIN_WORDS: dict[type[types.Type], str] = {
    types.UUIDType: "uuid",
    types.DateTimeType: "date-time",
    types.StrType: "string",
    types.IntType: "integer",
    types.FloatType: "number",
    types.BoolType: "boolean",
    types.NoneType: "null",
}
PLAIN_EXAMPLES: dict[type[types.Type], Any] = {
    types.UUIDType: EXAMPLE_ID,
    types.DateTimeType: EXAMPLE_MOMENT,
    types.StrType: "text",
    types.IntType: 1,
    types.FloatType: 1.5,
    types.BoolType: True,
    types.NoneType: None,
}


def _example(kind: types.Type) -> Any:
    match kind:
        case types.Metadata():
            given: Sequence[Any] = _noted(kind).get("examples", ())
            return given[0] if given else _example(kind.type)
        case types.UnionType():
            return _example(kind.types[0])
        case types.LiteralType():
            return kind.values[0]
        case types.ListType() | types.VarTupleType():
            return [_example(kind.item_type)]
        case types.DictType():
            return {_example(kind.key_type): _example(kind.value_type)}
        case types.StructType():
            tag = {kind.tag_field: kind.tag} if kind.tag_field else {}
            return tag | {one.encode_name: _example(one.type) for one in kind.fields}
        case _:
            return PLAIN_EXAMPLES[type(kind)]
