"""How a domain declares what it does with the messages of a queue.

One function per event type:

    handles = EventHandlers[Matcher]("matching_service_queue")

    @handles(RideRequested)
    async def start_search(db: Db, event: RideRequested, message: Message, matcher: Matcher) -> None: ...

Or one function for all events of a type that are in one batch; `queue.batch` limits it:

    @handles.together(RideRequested)
    async def start_searches(
        db: Db, arrivals: Sequence[Arrival[RideRequested]], matcher: Matcher
    ) -> None: ...

Or one function per batch:

    handles = batch_handlers("analytics_events_queue", KINDS, prepare=fact_of_message, write=count_facts)

Declarations stand at module level and need no settings. The types in brackets are what the functions need
beside the message: `bind` supplies it later, as their last arguments.

A function gets an open transaction in which the inbox row of each message is already written, so it applies
each event once, however often the event is delivered. It never commits, and raises if it cannot handle one.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Self, TypeAlias, TypeVar, TypeVarTuple
from uuid import UUID

import msgspec
import structlog

from catraca.platform.bus.message import Message
from catraca.platform.database import Db
from catraca.platform.event import Event, key_of

E = TypeVar("E", bound=Event)
T = TypeVar("T")
Needs = TypeVarTuple("Needs")
EventFunction: TypeAlias = Callable[[Db, E, Message, *Needs], Awaitable[None]]
MessageFunction: TypeAlias = Callable[[Db, Message, *Needs], Awaitable[None]]


class Arrival(NamedTuple, Generic[E]):
    """An event, and the message that brought it."""

    event: E
    message: Message


ArrivalsFunction: TypeAlias = Callable[[Db, Sequence[Arrival[E]], *Needs], Awaitable[None]]
# Which messages of a batch are faulty, by their place in it.
Faults = Mapping[int, Exception]


class Unreadable(Exception):
    """The body is not what its key promises, and no retry can change that; `code` is the reason."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code

    @classmethod
    def because(cls, error: Exception) -> Self:
        """From a decoding error, without its text: it may quote personal data."""
        return cls("wrong_shape" if isinstance(error, msgspec.ValidationError) else "malformed_json")


# What decoding a body can raise.
DECODING_FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class HandleAlone(Exception):
    """These messages of a batch need a transaction each. The others are written first, together."""

    def __init__(self, message_ids: Collection[UUID]) -> None:
        super().__init__(f"{len(message_ids)} messages")
        self.message_ids = message_ids


class UnknownKey(Exception):
    """No handler for this key; a newer version of Catraca, perhaps starting just now, may have one."""


@dataclass(slots=True, kw_only=True)
class QueueHandlers(Generic[T, *Needs]):
    """The handlers of one queue, as the queue worker runs them."""

    queue: str
    # The handled keys. None: all of them.
    keys: Collection[str] | None
    # Reads one message, without a transaction. Raises its fault; `Unreadable` if no retry can change that.
    prepare: Callable[[Message, *Needs], Awaitable[T]]
    # Applies prepared messages in an open transaction, and may return the faults of single ones.
    write: Callable[[Db, Sequence[T], *Needs], Awaitable[Faults | None]]
    # Raises `Unreadable` for a body that a message with this key must not have. Unknown keys: any JSON.
    check: Callable[[str, bytes], None]
    # True for a prepared message that gets a transaction of its own, whatever the size of a batch.
    is_alone: Callable[[T], bool] = lambda _: False

    def bind(self, *needs: *Needs) -> "QueueHandlers[T]":
        """The same handlers with what they need."""

        async def prepare(message: Message) -> T:
            return await self.prepare(message, *needs)

        async def write(db: Db, prepared: Sequence[T]) -> Faults | None:
            return await self.write(db, prepared, *needs)

        return QueueHandlers(
            queue=self.queue,
            keys=self.keys,
            prepare=prepare,
            write=write,
            check=self.check,
            is_alone=self.is_alone,
        )


AnyHandlers: TypeAlias = QueueHandlers[Any, *tuple[Any, ...]]


class Call(NamedTuple):
    """A function to call with these arguments; `trace` is the request that caused the message."""

    function: Callable[..., Awaitable[None]]
    arguments: tuple[Any, ...]
    trace: str | None


class EventHandlers(QueueHandlers[Call, *Needs], Generic[*Needs]):
    """One function per event type, or one function for every message.

    Beside functions for several events together, those for one event get a transaction for each.
    """

    def __init__(self, queue: str) -> None:
        self._events = EventReader()
        self._by_key: dict[str, Callable[..., Awaitable[None]]] = {}
        self._for_all: Callable[..., Awaitable[None]] | None = None
        self._together: set[Callable[..., Awaitable[None]]] = set()
        super().__init__(
            queue=queue,
            keys=self._by_key.keys(),
            prepare=self._prepare,
            write=self._call,
            check=self._events.check,
            is_alone=self._is_alone,
        )

    def __call__(self, *kinds: type[E]) -> Callable[[EventFunction[E, *Needs]], EventFunction[E, *Needs]]:
        """Decorate the function for events of these types."""

        def add(function: EventFunction[E, *Needs]) -> EventFunction[E, *Needs]:
            self._add(kinds, function)
            return function

        return add

    def together(
        self, *kinds: type[E]
    ) -> Callable[[ArrivalsFunction[E, *Needs]], ArrivalsFunction[E, *Needs]]:
        """Decorate the function for all events of these types in a batch; it may raise `HandleAlone`."""

        def add(function: ArrivalsFunction[E, *Needs]) -> ArrivalsFunction[E, *Needs]:
            self._add(kinds, function)
            self._together.add(function)
            return function

        return add

    def _add(self, kinds: Iterable[type[Event]], function: Callable[..., Awaitable[None]]) -> None:
        for kind in kinds:
            key = key_of(kind)
            assert key not in self._by_key, f"{self.queue} already has a handler for {key}"
            self._events.add(kind)
            self._by_key[key] = function

    def anything(self, function: MessageFunction[*Needs]) -> MessageFunction[*Needs]:
        """Decorate a function for every message, its body not decoded: for logs and dead letters."""
        self._for_all = function
        self.keys = None
        return function

    async def _prepare(self, message: Message, *_needs: *Needs) -> Call:
        if self._for_all is not None:
            return Call(self._for_all, (message,), message.headers.trace)
        event = self._events.read(message)
        return Call(self._by_key[message.key], (event, message), message.headers.trace)

    def _is_alone(self, call: Call) -> bool:
        return bool(self._together) and call.function not in self._together

    async def _call(self, db: Db, calls: Sequence[Call], *needs: *Needs) -> None:
        arrivals: dict[Callable[..., Awaitable[None]], list[Arrival[Any]]] = {}
        for function, arguments, trace in calls:
            if function in self._together:
                arrivals.setdefault(function, []).append(Arrival(*arguments))
                continue
            with structlog.contextvars.bound_contextvars(request_id=trace):
                await function(db, *arguments, *needs)
        for function, together in arrivals.items():
            await function(db, together, *needs)


class EventReader:
    """Decodes the bodies of some types of events."""

    def __init__(self, kinds: Iterable[type[Event]] = ()) -> None:
        self._decoders: dict[str, msgspec.json.Decoder[Any]] = {}
        for kind in kinds:
            self.add(kind)

    def add(self, kind: type[Event]) -> None:
        self._decoders[key_of(kind)] = msgspec.json.Decoder(kind)

    def read(self, message: Message) -> Any:
        """The event; raises `UnknownKey` or `Unreadable`."""
        decoder = self._decoders.get(message.key)
        if decoder is None:
            raise UnknownKey(message.key)
        return _decoded(decoder, message.body)

    def check(self, key: str, body: bytes) -> None:
        _decoded(self._decoders.get(key, _any_json), body)


def batch_handlers(
    queue: str,
    kinds: Collection[type[Event]],
    *,
    prepare: Callable[[Any, Message], T],
    write: Callable[[Db, Sequence[T], *Needs], Awaitable[Faults | None]],
) -> QueueHandlers[T, *Needs]:
    """One function per batch; `prepare` returns what `write` needs of an event and its message."""
    reader = EventReader(kinds)

    async def read_and_prepare(message: Message, *_needs: *Needs) -> T:
        return prepare(reader.read(message), message)

    keys = {key_of(kind) for kind in kinds}
    return QueueHandlers(queue=queue, keys=keys, prepare=read_and_prepare, write=write, check=reader.check)


def message_handlers(
    queue: str,
    *,
    prepare: Callable[[Message], T],
    write: Callable[[Db, Sequence[T]], Awaitable[Faults | None]],
) -> QueueHandlers[T]:
    """One function per batch for messages with any key, whose bodies are not decoded."""

    async def prepare_message(message: Message) -> T:
        return prepare(message)

    return QueueHandlers(
        queue=queue, keys=None, prepare=prepare_message, write=write, check=EventReader().check
    )


_any_json = msgspec.json.Decoder[Any]()


def _decoded(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except DECODING_FAULTS as error:
        raise Unreadable.because(error) from error
