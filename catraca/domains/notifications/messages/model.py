"""Notifications of any event, and the form in which processes announce them to each other."""

from collections.abc import Iterator
from functools import cache
from uuid import UUID

import msgspec

from catraca.domains.notifications.appointment_notices.model import APPOINTMENT_NOTICES
from catraca.domains.notifications.model import MessageContext, NewNotification, SourceEvent
from catraca.domains.notifications.ride_notices.model import RIDE_NOTICES
from catraca.domains.people import UserId
from catraca.platform.event import Event

NOTICES = {**RIDE_NOTICES, **APPOINTMENT_NOTICES}
USER_FIELDS = ("rider_id", "driver_id", "client_id", "worker_user_id", "previous_worker_user_id")


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """A new notification, published to the processes that hold sockets."""

    user_id: UUID
    seq: int
    frame: bytes


encode_announcements = msgspec.msgpack.Encoder(uuid_format="bytes").encode
decode_announcements = msgspec.msgpack.Decoder(list[Announcement]).decode


def users_in(event: Event) -> Iterator[UUID]:
    """Yield the users whose names and languages the texts need, some of them twice."""
    for name in _user_fields(type(event)):
        user_id: UUID | None = getattr(event, name)
        if user_id is not None:
            yield user_id


@cache
def _user_fields(kind: type[Event]) -> tuple[str, ...]:
    return tuple(name for name in USER_FIELDS if name in kind.__struct_fields__)


def notifications_of(source: SourceEvent, context: MessageContext) -> Iterator[NewNotification]:
    """Yield the notifications of an event in the order of their numbers; none for erased users."""
    event_id, event = source
    notices = NOTICES.get(type(event))
    if notices is None:
        return
    for notification in notices(event_id, event, context):
        person = context.people.get(UserId(notification.user_id))
        if person is not None and person.erased_at is None:
            yield notification
