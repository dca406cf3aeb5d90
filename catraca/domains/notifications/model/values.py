"""Notifications as values, and what their words need to know."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from catraca.domains.people import User, UserId
from catraca.domains.rides import Ride, RideId
from catraca.domains.scheduling import Names
from catraca.events import live
from catraca.platform.event import Event
from catraca.platform.texts import DEFAULT_LANGUAGE, Language, text

CHANNEL = "catraca:notifications"
POSITIONS_CHANNEL = "catraca:positions"
TICKET_SECONDS = 30
# Up to here every reader of JSON counts exactly.
MAX_SEQ = 2**53 - 1


class Happened(NamedTuple):
    """An event and the id by which it is told once."""

    id: UUID
    event: Event


class Telling(NamedTuple):
    """One thing for one person to know."""

    user_id: UUID
    event_id: UUID
    notice: live.Notice
    # Whom else it names, and which offer it makes.
    about_id: UUID | None = None
    offer_id: UUID | None = None
    # Nobody's device is woken for it: most likely it is their own doing.
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Notification:
    """As it was written: `data` is JSON, letter by letter what devices get."""

    user_id: UUID
    seq: int
    type: str
    data: str
    created_at: datetime
    read_at: datetime | None = None

    def frame(self) -> str:
        """As a socket carries it."""
        return f'{{"seq":{self.seq},"type":"{self.type}","data":{self.data}}}'


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the words need to know beside the event."""

    people: Mapping[UserId, User]
    rides: Mapping[RideId, Ride]
    # An offer that is over by the time it is to be told is not told.
    open_offers: Collection[UUID]
    # Of services and workers.
    names: Names
    currency: str

    def language_of(self, user_id: UUID) -> Language:
        person = self.people.get(UserId(user_id))
        return person.language if person else DEFAULT_LANGUAGE


class Words:
    """`say = Words(language)`: what is said, by its key."""

    def __init__(self, language: Language) -> None:
        self._language: Language = language

    def __call__(self, key: str, **data: object) -> str:
        return text(f"notifications.{key}", self._language, data)


_encoder = msgspec.json.Encoder()


def write_notice(notice: live.Notice) -> str:
    return _encoder.encode(notice).decode()
