"""The catalogue of events matches the code, as a page and as an AsyncAPI document."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema_rs
import msgspec
import pytest
from msgspec import Meta

from catraca.events import EVENTS, TOPOLOGY, UserCreated
from catraca.events.asyncapi import document, header_fields
from catraca.events.catalogue import Entry, catalogue, example_of
from catraca.events.markdown import page
from catraca.events.publishers import publishers_of
from catraca.platform.bus import Headers, Message, Queue
from catraca.platform.bus.rabbitmq.codec import properties_of
from catraca.platform.event import Event, encode, key_of
from tests.support.forked import run_catraca

ROOT = Path(__file__).parents[2]


class Stop(msgspec.Struct, frozen=True):
    at: datetime
    meters: float


class RideMade(Event, frozen=True, kw_only=True, tag="ride.made"):
    """One of every kind of field."""

    exchange = "rides.events"
    about = "ride_id"

    ride_id: UUID
    round: int
    kind: Literal["normal", "comunidade"]
    seats: Annotated[int, Meta(description="How many.", examples=[4])]
    note: str | None
    shared: bool
    stops: list[Stop]
    fares: dict[str, int]


def ride_made() -> Entry:
    (entry,) = catalogue([RideMade])
    return entry


def test_the_events_page_matches_the_code() -> None:
    renewed = "run `.venv/bin/catraca events --format markdown > docs/events.md`"
    assert (ROOT / "docs/events.md").read_text() == page(), f"docs/events.md is out of date: {renewed}"


def test_an_entry_has_key_fields_publisher_and_consumers() -> None:
    (entry,) = catalogue([UserCreated])
    assert (entry.key, entry.exchange, entry.publishers) == ("user.created", "users.events", ["people"])
    assert [(field.name, field.type) for field in entry.fields] == [
        ("event_type", '"user.created"'),
        ("timestamp", "date-time"),
        ("user_id", "uuid"),
        ("roles", "list of string"),
        ("signed_up", "boolean"),
    ]
    assert [(queue.name, queue.role) for queue in entry.queues] == [
        ("notification_users_queue", "notifier"),
        ("audit_log_queue", "housekeeper"),
    ]


def test_listed_queues_are_routed() -> None:
    for entry in [*catalogue(), ride_made()]:
        assert entry.queues == TOPOLOGY.route(entry.exchange, entry.key)


def test_every_kind_of_field_has_words_and_an_example() -> None:
    entry = ride_made()
    assert {field.name: field.type for field in entry.fields[2:]} == {
        "ride_id": "uuid",
        "round": "integer",
        "kind": '"comunidade" or "normal"',
        "seats": "integer",
        "note": "string or null",
        "shared": "boolean",
        "stops": "list of object (at, meters)",
        "fares": "object of integer",
    }
    assert [field.says for field in entry.fields if field.name in ("ride_id", "seats")] == [
        "What it is about.",
        "How many.",
    ]
    assert msgspec.json.decode(entry.example, type=RideMade).seats == 4


@pytest.mark.parametrize("kind", [*EVENTS, RideMade])
def test_examples_are_valid_events(kind: type[Event]) -> None:
    example = encode(example_of(kind))
    assert msgspec.json.decode(example, type=kind) == example_of(kind)
    assert msgspec.json.decode(example)["event_type"] == key_of(kind)


def test_every_key_of_an_exchange_is_published() -> None:
    # Sign-ups and their dead letters are published as they came; they are not events.
    listed = {key for keys in TOPOLOGY.exchanges.values() for key in keys} - {"raffle_queue", "raffle_dlq"}
    assert listed == {key_of(kind) for kind in EVENTS}


@pytest.mark.parametrize(
    ("source", "publishes"),
    [
        ("async def f(db): await outbox.record(db, RideMade(ride_id=1))", True),
        ("async def f(db, ride): await outbox.record(db, RideMade.of(ride))", True),
        ("events = [RideMade(ride_id=one) for one in rides]", True),
        ("@handles(RideMade)\nasync def f(db, event: RideMade, message): ...", False),
        ("from catraca.events import RideMade\nKINDS = (RideMade,)", False),
    ],
)
def test_every_event_constructor_publishes_it(tmp_path: Path, source: str, publishes: bool) -> None:
    for domain, text in {"rides": source, "billing": ""}.items():
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "service.py").write_text(text)
    assert publishers_of(RideMade, tmp_path) == (["rides"] if publishes else [])


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def follow(whole: dict[str, Any], reference: str) -> Any:
    node: Any = whole
    for part in reference.removeprefix("#/").split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


@pytest.fixture(params=["published", "with another event"])
def described(request: pytest.FixtureRequest) -> dict[str, Any]:
    return document() if request.param == "published" else document([*catalogue(), ride_made()])


def test_the_asyncapi_document_has_the_shape_of_its_version(described: dict[str, Any]) -> None:
    assert described["asyncapi"] == "3.0.0"
    assert described["info"]["title"]
    assert described["info"]["version"]
    assert described.keys() <= {
        "asyncapi",
        "info",
        "defaultContentType",
        "channels",
        "operations",
        "components",
    }
    for reference in references(described):
        assert follow(described, reference), reference
    for channel in described["channels"].values():
        assert channel["address"]
        assert channel["messages"]
        assert channel["bindings"]["amqp"]["is"] in ("routingKey", "queue")
    for operation in described["operations"].values():
        assert operation["action"] in ("send", "receive")
        channel = operation["channel"]["$ref"]
        # An operation references the messages of its channel, not those of the components.
        assert operation["messages"]
        assert all(one["$ref"].startswith(f"{channel}/messages/") for one in operation["messages"])


def test_every_event_is_sent_and_received_in_the_document(described: dict[str, Any]) -> None:
    sent = {one["channel"]["$ref"] for one in described["operations"].values() if one["action"] == "send"}
    messages = described["components"]["messages"]
    assert sent == {f"#/channels/{message['name']}" for message in messages.values()}
    received = {
        follow(described, message["$ref"])["$ref"].rpartition("/")[2]
        for one in described["operations"].values()
        if one["action"] == "receive"
        for message in one["messages"]
    }
    assert received == messages.keys()


def test_examples_in_the_document_keep_its_schemas(described: dict[str, Any]) -> None:
    for message in described["components"]["messages"].values():
        for part in ("payload", "headers"):
            schema = {**message[part], "components": described["components"]}
            validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
            for example in message["examples"]:
                validator.validate(example[part])
            with pytest.raises(jsonschema_rs.ValidationError):
                validator.validate({**message["examples"][0][part], "timestamp": 7, "x-seq": "7"})


def test_headers_are_named_as_on_the_wire() -> None:
    """Compared with the codec's headers of a message that has all of them."""
    full = Headers(
        aggregate_id=UUID(int=1),
        seq=1,
        round=1,
        version=2,
        trace="t",
        retries=1,
        retry_reason="r",
        sent_at=1,
        queue="q",
        reason="r",
    )
    message = Message(id=UUID(int=1), exchange="e", key="k", body=b"", headers=full)
    assert {field.name for field in header_fields()} == (properties_of(message).headers or {}).keys()


def test_a_cell_cannot_break_its_table() -> None:
    odd = replace(TOPOLOGY, queues=(Queue(name="q", binds=("ride.*",), role="r", does="a | b"),))
    (entry,) = catalogue([RideMade], odd)
    from catraca.events.markdown import _section

    assert "| `q` | r | a \\| b |" in _section(entry)


@pytest.mark.parametrize("form", ["table", "markdown", "asyncapi"])
async def test_command_prints_the_catalogue_without_servers(form: str, tmp_path: Path) -> None:
    # A narrower table wraps words.
    environment = os.environ | {"COLUMNS": "200"}
    code, output, errors = await run_catraca(
        "events", "--format", form, environment=environment, folder=tmp_path
    )
    assert (code, errors) == (0, "")
    if form == "asyncapi":
        assert json.loads(output) == json.loads(json.dumps(document()))
    elif form == "markdown":
        assert output == page()
    else:
        for word in ("user.created", "users.events", "people", "housekeeper"):
            assert word in output


async def test_command_prints_the_details_of_one_event(tmp_path: Path) -> None:
    environment = os.environ | {"COLUMNS": "200"}
    code, output, errors = await run_catraca(
        "events", "ride.accepted", environment=environment, folder=tmp_path
    )
    assert (code, errors) == (0, "")
    for word in (
        "rides.events",
        "driver_id",
        "uuid",
        '"event_type": "ride.accepted"',
        "housekeeper",
        "notification to",
    ):
        assert word in output


async def test_command_refuses_an_unknown_event(tmp_path: Path) -> None:
    code, _, errors = await run_catraca("events", "ride.flown", environment=os.environ, folder=tmp_path)
    assert (code, errors) == (2, "catraca: no event is named ride.flown; `catraca events` lists them\n")
