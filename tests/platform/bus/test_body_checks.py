"""The check that a queue can read a body, before the body is sent there."""

from typing import Any
from uuid import uuid4

import pytest

from catraca.events import UserCreated
from catraca.platform.bus import EventHandlers, Message
from catraca.platform.bus.handlers import Unreadable
from catraca.platform.database import Db
from catraca.platform.event import encode

SOUND = encode(UserCreated(user_id=uuid4(), roles=()))


@pytest.fixture
def handles() -> EventHandlers[()]:
    handles = EventHandlers[()]("some_queue")

    @handles(UserCreated)
    async def welcome(_db: Db, _event: UserCreated, _message: Message) -> None:
        raise AssertionError("a question is not a message")

    return handles


def test_a_readable_body_passes_the_check(handles: EventHandlers[()]) -> None:
    handles.check("user.created", SOUND)
    handles.check("user.created", SOUND[:-1] + b', "brought_by": "a friend"}')


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "malformed_json"),
        (b"{", "malformed_json"),
        (b"\xff\xfe", "malformed_json"),
        (b"null", "wrong_shape"),
        (b"{}", "wrong_shape"),
        (SOUND.replace(b"user.created", b"user.rejected"), "wrong_shape"),
    ],
)
def test_an_unreadable_body_is_reported_with_its_fault(
    handles: EventHandlers[()], body: bytes, code: str
) -> None:
    with pytest.raises(Unreadable) as refused:
        handles.check("user.created", body)
    assert refused.value.code == code


@pytest.mark.parametrize("body", [b"{}", b"null", b"[1]", SOUND])
def test_an_unknown_key_needs_only_valid_json(handles: EventHandlers[()], body: bytes) -> None:
    handles.check("user.new", body)
    with pytest.raises(Unreadable):
        handles.check("user.new", body + b"}")


def test_a_queue_that_takes_anything_takes_json() -> None:
    handles = EventHandlers[()]("some_queue")

    @handles.anything
    async def keep(_db: Any, _message: Message) -> None: ...

    handles.check("whatever", b'{"any": "thing"}')
    with pytest.raises(Unreadable):
        handles.check("whatever", b"any thing")
