"""How a domain declares its handlers of events."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from catraca.events import UserCreated, UserRejected
from catraca.platform.bus import Arrival, EventHandlers, Message, message_handlers
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


async def test_handler_of_several_events_is_called_once_for_a_batch() -> None:
    handles = EventHandlers[()]("some_queue")
    seen: list[Sequence[Arrival[UserCreated]]] = []

    @handles.together(UserCreated)
    async def welcome(_db: Db, arrivals: Sequence[Arrival[UserCreated]]) -> None:
        seen.append(arrivals)

    events = [UserCreated(user_id=uuid4(), roles=()) for _ in range(3)]
    sent = [message("user.created", encode(event)) for event in events]
    await handles.write(NO_DATABASE, [await handles.prepare(one) for one in sent])
    assert seen == [list(zip(events, sent, strict=True))]


async def test_events_for_one_at_a_time_stay_alone_beside_others() -> None:
    handles, plain = EventHandlers[()]("some_queue"), EventHandlers[()]("some_queue")

    @handles.together(UserCreated)
    async def welcome(_db: Db, _arrivals: Sequence[Arrival[UserCreated]]) -> None: ...

    @plain(UserRejected)
    @handles(UserRejected)
    async def reject(_db: Db, _event: UserRejected, _message: Message) -> None: ...

    created = message("user.created", encode(UserCreated(user_id=uuid4(), roles=())))
    rejected = message("user.rejected", encode(UserRejected(user_id=uuid4(), reason="id_taken")))
    assert not handles.is_alone(await handles.prepare(created))
    assert handles.bind().is_alone(await handles.prepare(rejected))
    assert not plain.is_alone(await plain.prepare(rejected))


async def test_messages_of_any_key_are_written_in_one_call() -> None:
    seen: list[Sequence[str]] = []

    async def write(_db: Db, keys: Sequence[str]) -> None:
        seen.append(keys)

    handles = message_handlers("some_queue", prepare=lambda one: one.key, write=write)
    sent = [message("whatever", b"\xff"), message("user.created", b"")]
    await handles.write(NO_DATABASE, [await handles.prepare(one) for one in sent])
    assert seen == [["whatever", "user.created"]]
    assert handles.keys is None


def test_two_handlers_for_one_key_are_a_mistake() -> None:
    handles = EventHandlers[()]("some_queue")

    async def welcome(_db: Db, _event: UserCreated, _message: Message) -> None: ...

    handles(UserCreated)(welcome)
    with pytest.raises(AssertionError, match=r"some_queue already has a handler for user\.created"):
        handles(UserCreated)(welcome)
