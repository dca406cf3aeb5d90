"""Values that all features of notifications share."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from catraca.domains.people import User, UserId
from catraca.domains.rides import Ride, RideId
from catraca.domains.scheduling import Names
from catraca.events import live
from catraca.platform.event import Event
from catraca.platform.texts import DEFAULT_LANGUAGE, Language, text

NOTIFICATIONS_CHANNEL = "catraca:notifications"
POSITIONS_CHANNEL = "catraca:positions"
# The largest integer that every JSON reader keeps exactly.
MAX_SEQ = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Notification:
    """`data` is JSON, byte for byte as devices get it."""

    user_id: UUID
    seq: int
    type: str
    data: str
    created_at: datetime
    read_at: datetime | None = None

    def frame(self) -> bytes:
        return frame_of(self.seq, self.type, self.data)


def frame_of(seq: int, type_: str, data: str) -> bytes:
    """Return the text frame for a socket; `data` is JSON."""
    return f'{{"seq":{seq},"type":"{type_}","data":{data}}}'.encode()


class SourceEvent(NamedTuple):
    """An event with the id of its message: a user gets each notification of it once."""

    id: UUID
    event: Event


class NewNotification(NamedTuple):
    user_id: UUID
    event_id: UUID
    notice: live.Notice
    # Another user whose name is in the text, and the offer it is about.
    about_id: UUID | None = None
    offer_id: UUID | None = None
    # Not pushed to devices: the reader most likely caused the event.
    quiet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageContext:
    """Data for the texts that is not in the event."""

    people: Mapping[UserId, User]
    rides: Mapping[RideId, Ride]
    # An offer that has ended by now is not notified.
    open_offers: Collection[UUID]
    # Names of services and workers.
    names: Names
    currency: str

    def language_of(self, user_id: UUID) -> Language:
        person = self.people.get(UserId(user_id))
        return person.language if person else DEFAULT_LANGUAGE

    def texts_for(self, user_id: UUID) -> "Texts":
        return Texts(self.language_of(user_id))


# Returns the notifications of an event, whose id is given first.
NotificationsOf = Callable[[UUID, Any, MessageContext], Iterable[NewNotification]]


class Texts:
    """Notification texts of one language, by key."""

    def __init__(self, language: Language) -> None:
        self.language: Language = language

    def __call__(self, key: str, **data: object) -> str:
        return text(f"notifications.{key}", self.language, data)
