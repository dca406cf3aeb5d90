"""How a domain declares its handlers of events."""

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from catraca.events import UserCreated
from catraca.platform.bus import EventHandlers, Message
from catraca.platform.bus.handlers import UnknownKey, Unreadable
from catraca.platform.database import Db
from catraca.platform.event import encode, key_of
from catraca.platform.ids import new_id

NO_DATABASE: Any = None


def message(key: str, body: bytes) -> Message:
    return Message(id=new_id(), exchange="users.events", key=key, body=body)


async def run(handles: EventHandlers[()], message: Message) -> None:
    await handles.write(NO_DATABASE, [await handles.prepare(message)])


async def test_a_handler_gets_the_event_as_it_was_recorded() -> None:
    handles = EventHandlers[()]("some_queue")
    seen: list[tuple[UserCreated, Message]] = []

    @handles(UserCreated)
    async def welcome(_db: Db, event: UserCreated, message: Message) -> None:
        seen.append((event, message))

    event = UserCreated(user_id=uuid4(), roles=("driver",), timestamp=datetime(2026, 1, 2, tzinfo=UTC))
    sent = message(key_of(UserCreated), encode(event))
    await run(handles, sent)
    assert seen == [(event, sent)]
    assert handles.queue == "some_queue"
    assert set(handles.keys or ()) == {"user.created"}


async def test_fields_of_a_newer_version_are_ignored() -> None:
    handles = EventHandlers[()]("some_queue")
    seen: list[UserCreated] = []

    @handles(UserCreated)
    async def welcome(_db: Db, event: UserCreated, _message: Message) -> None:
        seen.append(event)

    event = UserCreated(user_id=uuid4(), roles=())
    newer = encode(event)[:-1] + b', "brought_by": "a friend"}'
    await run(handles, message("user.created", newer))
    assert seen == [event]


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"{", b"\xff\xfe", b'{"event_type": "user.rejected"}', b'{"user_id": "7", "roles": []}'],
)
async def test_a_body_that_is_not_the_event_is_unreadable(body: bytes) -> None:
    handles = EventHandlers[()]("some_queue")

    @handles(UserCreated)
    async def welcome(_db: Db, _event: UserCreated, _message: Message) -> None:
        raise AssertionError("not to be called")

    with pytest.raises(Unreadable):
        await run(handles, message("user.created", body))


async def test_a_key_without_a_handler_is_unknown() -> None:
    with pytest.raises(UnknownKey):
        await run(EventHandlers[()]("some_queue"), message("user.created", b"{}"))


async def test_a_handler_of_anything_gets_the_message_unread() -> None:
    handles = EventHandlers[()]("some_queue")
    seen: list[Message] = []

    @handles.anything
    async def keep(_db: Db, message: Message) -> None:
        seen.append(message)

    sent = message("whatever", b"\xff")
    await run(handles, sent)
    assert seen == [sent]
    assert handles.keys is None


def test_two_handlers_for_one_key_are_a_mistake() -> None:
    handles = EventHandlers[()]("some_queue")

    async def welcome(_db: Db, _event: UserCreated, _message: Message) -> None: ...

    handles(UserCreated)(welcome)
    with pytest.raises(AssertionError, match=r"some_queue already has a handler for user\.created"):
        handles(UserCreated)(welcome)
