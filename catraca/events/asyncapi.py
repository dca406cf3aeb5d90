"""The catalogue as an AsyncAPI 3.0 document, as the messages are on RabbitMQ."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import inspect as types

from catraca.events.catalogue import EXAMPLE_ID, Entry, Field, catalogue, words_for
from catraca.platform.bus.message import Headers

SCHEMA_REF = "#/components/schemas/{name}"
BINDING_VERSION = "0.3.0"
HEADERS_SAY = {
    "aggregate_id": "What the event is about.",
    "seq": "Its place among the events of its aggregate, from 1, without gaps.",
    "round": "Which round of a ride it belongs to.",
    "version": "Which version of the event's fields this is.",
    "trace": "The id of the request that caused it.",
    "retries": "How often handling it has failed so far.",
    "retry_reason": "Why it failed the last time, as a code.",
    "sent_at": "When it was published, in milliseconds since 1970; of some messages only.",
    "queue": "Of a dead letter: where it died.",
    "reason": "Of a dead letter: why, as a code.",
}


def header_fields() -> list[Field]:
    """The headers by their names on the wire."""
    described = types.type_info(Headers)
    assert isinstance(described, types.StructType)
    return [
        Field(_wire_name(field.name), words_for(field.type).removesuffix(" or null"), HEADERS_SAY[field.name])
        for field in described.fields
    ]


def document(entries: Sequence[Entry] | None = None) -> dict[str, Any]:
    entries = catalogue() if entries is None else entries
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Catraca",
            "version": version("catraca"),
            "description": "The events of Catraca. Delivered at least once, in order within an aggregate.",
        },
        "defaultContentType": "application/json",
        "channels": {**_key_channels(entries), **_queue_channels(entries)},
        "operations": {**_sends(entries), **_receives(entries)},
        "components": {
            "messages": {entry.kind.__name__: _message(entry) for entry in entries},
            "schemas": _schemas(entries),
        },
    }


def _key_channels(entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        entry.key: {
            "address": entry.key,
            "messages": _messages([entry]),
            "bindings": {
                "amqp": {
                    "is": "routingKey",
                    "exchange": {"name": entry.exchange, "type": "topic", "durable": True},
                    "bindingVersion": BINDING_VERSION,
                }
            },
        }
        for entry in entries
    }


def _queue_channels(entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        queue.name: {
            "address": queue.name,
            "description": queue.does,
            "messages": _messages(_reaching(queue.name, entries)),
            "bindings": {
                "amqp": {
                    "is": "queue",
                    "queue": {"name": queue.name, "durable": True, "exclusive": False, "autoDelete": False},
                    "bindingVersion": BINDING_VERSION,
                }
            },
        }
        for entry in entries
        for queue in entry.queues
    }


def _reaching(queue: str, entries: Sequence[Entry]) -> list[Entry]:
    return [entry for entry in entries if queue in {one.name for one in entry.queues}]


def _messages(entries: Sequence[Entry]) -> dict[str, Any]:
    return {one.kind.__name__: {"$ref": f"#/components/messages/{one.kind.__name__}"} for one in entries}


def _sends(entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        f"send_{entry.key}": {
            "action": "send",
            "channel": {"$ref": f"#/channels/{entry.key}"},
            "summary": entry.says,
            "tags": [{"name": publisher} for publisher in entry.publishers],
            "messages": [{"$ref": f"#/channels/{entry.key}/messages/{entry.kind.__name__}"}],
        }
        for entry in entries
    }


def _receives(entries: Sequence[Entry]) -> dict[str, Any]:
    return {
        f"receive_{queue.name}": {
            "action": "receive",
            "channel": {"$ref": f"#/channels/{queue.name}"},
            "summary": queue.does,
            "tags": [{"name": queue.role}],
            "messages": [
                {"$ref": f"#/channels/{queue.name}/messages/{one.kind.__name__}"}
                for one in _reaching(queue.name, entries)
            ],
        }
        for entry in entries
        for queue in entry.queues
    }


def _message(entry: Entry) -> dict[str, Any]:
    headers = {
        _wire_name("aggregate_id"): str(EXAMPLE_ID),
        _wire_name("seq"): 1,
        _wire_name("version"): entry.kind.version,
    }
    return {
        "name": entry.key,
        "title": entry.kind.__name__,
        "summary": entry.says,
        "contentType": "application/json",
        "headers": {"$ref": SCHEMA_REF.format(name="Headers")},
        "payload": {"$ref": SCHEMA_REF.format(name=entry.kind.__name__)},
        "examples": [{"headers": headers, "payload": msgspec.json.decode(entry.example)}],
    }


def _schemas(entries: Sequence[Entry]) -> dict[str, Any]:
    _, schemas = msgspec.json.schema_components([e.kind for e in entries], ref_template=SCHEMA_REF)
    for entry in entries:
        schema = schemas[entry.kind.__name__]
        schema["properties"]["timestamp"]["format"] = "date-time"
        # Optional when an event is created, always present when it is sent.
        schema["required"] = list(schema["properties"])
    return {**schemas, "Headers": _headers_schema()}


def _headers_schema() -> dict[str, Any]:
    _, schemas = msgspec.json.schema_components([Headers])
    properties: dict[str, Any] = {}
    for name, schema in schemas["Headers"]["properties"].items():
        # A header without a value is omitted, never null.
        (kept,) = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
        properties[_wire_name(name)] = {
            "description": HEADERS_SAY[name],
            **{word: value for word, value in kept.items() if word != "default"},
        }
    return {"type": "object", "properties": properties, "required": ["x-seq", "x-version"]}


def _wire_name(header: str) -> str:
    return f"x-{header.replace('_', '-')}"
