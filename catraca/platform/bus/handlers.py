"""How a domain says what it does with an event.

    handles = handlers_for("matching_service_queue")

    @handles(RideRequested)
    async def start_matching(db: Db, event: RideRequested, message: Message) -> None: ...

A handler gets an open transaction in which its inbox row is already written, so it runs once for each event
whatever is delivered how often. It never commits, and it raises what it cannot handle.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Self, TypeVar

import msgspec

from catraca.platform.bus.message import Message
from catraca.platform.database import Db
from catraca.platform.event import Event, key_of

E = TypeVar("E", bound=Event)
Handler = Callable[[Db, E, Message], Awaitable[None]]
AnyHandler = Callable[[Db, Message], Awaitable[None]]


class Unreadable(Exception):
    """The body is not what its key promises, and no retry will change that; the code says how."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code

    @classmethod
    def because(cls, error: Exception) -> Self:
        """What decoding raised, without its words: those quote values."""
        return cls("wrong_shape" if isinstance(error, msgspec.ValidationError) else "malformed_json")


# What decoding a body can raise.
DECODING_FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class UnknownKey(Exception):
    """No handler here for this key; a newer version of us, perhaps starting just now, may have one."""


class QueueHandlers:
    """Everything one queue's consumer can do: one handler a key, or one for whatever comes."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self._by_key: dict[str, tuple[msgspec.json.Decoder[Any], Handler[Any]]] = {}
        self._anything: AnyHandler | None = None

    @property
    def keys(self) -> Collection[str] | None:
        """The keys it has handlers for; None when it takes everything."""
        return None if self._anything else self._by_key.keys()

    def __call__(self, kind: type[E]) -> Callable[[Handler[E]], Handler[E]]:
        def add(handler: Handler[E]) -> Handler[E]:
            key = key_of(kind)
            assert key not in self._by_key, f"{self.queue} already has a handler for {key}"
            self._by_key[key] = (msgspec.json.Decoder(kind), handler)
            return handler

        return add

    def anything(self, handler: AnyHandler) -> AnyHandler:
        """Take every message as it is, its body unread; for logs and dead letters."""
        self._anything = handler
        return handler

    def check(self, key: str, body: bytes) -> None:
        """Raise `Unreadable` for a body that a message with this key could not be handled with.

        Where nobody here has read such a message before, it need only be JSON.
        """
        decoder, _ = self._by_key.get(key, (_any_json, None))
        _decoded(decoder, body)

    async def run(self, db: Db, message: Message) -> None:
        """Hand the message to its handler, in this transaction."""
        if self._anything is not None:
            await self._anything(db, message)
            return
        found = self._by_key.get(message.key)
        if found is None:
            raise UnknownKey(message.key)
        decoder, handler = found
        await handler(db, _decoded(decoder, message.body), message)


class EventReader:
    """Reads the bodies of some kinds of events, for handlers that take messages in batches."""

    def __init__(self, kinds: Iterable[type[Event]]) -> None:
        self._by_key: dict[str, msgspec.json.Decoder[Any]] = {
            key_of(kind): msgspec.json.Decoder(kind) for kind in kinds
        }

    def read(self, message: Message) -> Any:
        """The event; raises `UnknownKey`, or `Unreadable`."""
        decoder = self._by_key.get(message.key)
        if decoder is None:
            raise UnknownKey(message.key)
        return _decoded(decoder, message.body)

    def check(self, key: str, body: bytes) -> None:
        """Raise `Unreadable` for a body that a message with this key could not be handled with."""
        _decoded(self._by_key.get(key, _any_json), body)


_any_json = msgspec.json.Decoder[Any]()


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except DECODING_FAULTS as error:
        raise Unreadable.because(error) from error


def handlers_for(queue: str) -> QueueHandlers:
    """The handlers of one queue; each queue belongs to one domain, in whose `handlers.py` they stand."""
    return QueueHandlers(queue)
