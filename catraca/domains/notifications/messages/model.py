"""Notifications of any event, and the form in which processes announce them to each other."""

from collections.abc import Iterator
from uuid import UUID

import msgspec

from catraca.domains.notifications.appointment_notices.model import appointment_notifications
from catraca.domains.notifications.model import MessageContext, NewNotification, SourceEvent
from catraca.domains.notifications.ride_notices.model import ride_notifications
from catraca.domains.people import UserId
from catraca.platform.event import Event

USER_FIELDS = ("rider_id", "driver_id", "client_id", "worker_user_id", "previous_worker_user_id")


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """A new notification, published to the processes that hold sockets."""

    user_id: UUID
    seq: int
    frame: str


encode_announcements = msgspec.msgpack.Encoder().encode
decode_announcements = msgspec.msgpack.Decoder(list[Announcement]).decode


def users_in(event: Event) -> set[UUID]:
    """Return the users whose names and languages the texts need."""
    return {one for name in USER_FIELDS if isinstance(one := getattr(event, name, None), UUID)}


def notifications_of(source: SourceEvent, context: MessageContext) -> Iterator[NewNotification]:
    """Yield the notifications of an event in the order of their numbers; none for erased users."""
    for notifications in (ride_notifications, appointment_notifications):
        for notification in notifications(source, context):
            person = context.people.get(UserId(notification.user_id))
            if person is not None and person.erased_at is None:
                yield notification
