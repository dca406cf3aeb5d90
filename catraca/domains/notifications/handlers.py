"""Reacts to rides and searches: whoever they concern is told. A batch is read, and written, at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from catraca.domains.notifications.model import Happened
from catraca.domains.notifications.service.pushing import push
from catraca.domains.notifications.service.telling import Teller
from catraca.events import (
    CandidateFound,
    MatchingTimeout,
    NoDriversAvailable,
    OfferCanceled,
    PushDue,
    RideArriving,
    RideCancelled,
    RideCompleted,
    RideMatched,
    RideReassigning,
    RideStarted,
)
from catraca.platform.batching import BatchHandlers
from catraca.platform.bus import Message, QueueHandlers, Unreadable, handlers_for
from catraca.platform.bus.handlers import DECODING_FAULTS, UnknownKey
from catraca.platform.database import Db
from catraca.platform.event import Event, key_of
from catraca.platform.web_push import Pusher

EVENTS: Mapping[str, tuple[type[Event], ...]] = {
    "notification_rides_queue": (
        RideMatched,
        RideArriving,
        RideStarted,
        RideCompleted,
        RideCancelled,
        RideReassigning,
    ),
    "notification_matching_queue": (CandidateFound, MatchingTimeout, NoDriversAvailable, OfferCanceled),
}
_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    key_of(kind): msgspec.json.Decoder(kind) for kinds in EVENTS.values() for kind in kinds
}
_any_json = msgspec.json.Decoder[Any]()


def make_handlers(teller: Teller) -> tuple[BatchHandlers[Happened], ...]:
    """One for each queue."""

    async def write(db: Db, happenings: Sequence[Happened]) -> Mapping[int, Exception]:
        await teller.tell(db, happenings)
        return {}

    return tuple(
        BatchHandlers(queue=queue, keys={key_of(kind) for kind in kinds}, prepare=_prepare, write=write)
        for queue, kinds in EVENTS.items()
    )


def push_handlers(pusher: Pusher | None) -> QueueHandlers:
    """Without a contact for push services nobody is pushed to."""
    handles = handlers_for("notification_push_queue")

    @handles(PushDue)
    async def wake_device(db: Db, event: PushDue, message: Message) -> None:
        if pusher is not None:
            await push(db, pusher, event)

    return handles


def check_body(key: str, body: bytes) -> None:
    """Raise `Unreadable` for a body that nobody could be told of."""
    _read(_decoders.get(key, _any_json), body)


async def _prepare(message: Message) -> Happened:
    decoder = _decoders.get(message.key)
    if decoder is None:
        raise UnknownKey(message.key)
    return Happened(message.id, _read(decoder, message.body))


def _read(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except DECODING_FAULTS as error:
        raise Unreadable.because(error) from error
