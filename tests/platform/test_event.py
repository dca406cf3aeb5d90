"""An event's body is flat JSON with its type and time; its routing key is its tag."""

from datetime import UTC, datetime
from uuid import uuid4

import msgspec
import pytest

from catraca.platform.event import Event, encode, key_of


class Painted(Event, tag="door.painted"):
    exchange = "doors.events"
    about = "door_id"

    door_id: str
    colours: tuple[str, ...] = ()
    coats: int | None = None


def test_event_survives_encoding() -> None:
    event = Painted(door_id=str(uuid4()), colours=("azul", "verde-água"), coats=2)
    assert msgspec.json.decode(encode(event), type=Painted) == event


def test_body_is_flat_with_type_and_time() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    event = Painted(door_id="d", colours=("azul",), timestamp=moment)
    assert msgspec.json.decode(encode(event)) == {
        "event_type": "door.painted",
        "timestamp": "2026-01-02T03:04:05Z",
        "door_id": "d",
        "colours": ["azul"],
        "coats": None,
    }


def test_event_has_the_present_time_and_is_immutable() -> None:
    before = datetime.now(UTC)
    event = Painted(door_id="d")
    assert before <= event.timestamp <= datetime.now(UTC)
    with pytest.raises(AttributeError):
        event.coats = 3


def test_body_of_one_event_is_not_read_as_another() -> None:
    class Opened(Event, tag="door.opened"):
        exchange = "doors.events"
        about = "door_id"
        door_id: str

    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(encode(Painted(door_id="d")), type=Opened)


def test_unknown_fields_are_ignored() -> None:
    body = {"event_type": "door.painted", "timestamp": "2026-01-02T03:04:05Z", "door_id": "d", "new": 1}
    assert msgspec.json.decode(msgspec.json.encode(body), type=Painted).door_id == "d"


def test_event_has_its_aggregate_id() -> None:
    assert Painted(door_id="d").aggregate_id == "d"
    assert key_of(Painted) == "door.painted"


def test_event_without_a_routing_key_is_refused() -> None:
    class Nameless(Event):
        exchange = "doors.events"
        about = "door_id"
        door_id: str

    with pytest.raises(AssertionError, match="Nameless"):
        key_of(Nameless)
