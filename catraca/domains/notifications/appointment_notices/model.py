"""Notifications of events about appointments: recipients, and texts in the appointment's time zone."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from catraca.domains import scheduling
from catraca.domains.notifications.model import MessageContext, NewNotification, NotificationsOf, Texts
from catraca.events import (
    AppointmentBooked,
    AppointmentCanceled,
    AppointmentConfirmed,
    AppointmentMissed,
    AppointmentNear,
    AppointmentRescheduled,
    SlotOffered,
    live,
)
from catraca.events.appointments import AppointmentEvent
from catraca.platform.event import Event
from catraca.platform.texts import local_moment

# Suffix of text keys for workers.
FOR_WORKER = "_worker"


def _parties(event_id: UUID, event: AppointmentEvent, context: MessageContext) -> Iterator[NewNotification]:
    """Notify client and worker, if they have accounts. A user who is both reads it as the client."""
    client_id, worker_id = event.client_id, event.worker_user_id
    if client_id is not None:
        notice = _appointment_notice(event, client_id, "", context)
        yield NewNotification(client_id, event_id, notice, about_id=worker_id, quiet=_is_by_client(event))
    if worker_id not in (None, client_id) and not isinstance(event, AppointmentMissed | SlotOffered):
        notice = _appointment_notice(event, worker_id, FOR_WORKER, context)
        yield NewNotification(worker_id, event_id, notice, quiet=_is_quiet_for_worker(event))
    if isinstance(event, AppointmentRescheduled):
        before_id = event.previous_worker_user_id
        if before_id not in (None, client_id, worker_id):
            notice = _appointment_notice(event, before_id, FOR_WORKER, context)
            yield NewNotification(before_id, event_id, notice, about_id=worker_id)


def _is_by_client(event: AppointmentEvent) -> bool:
    """Bookings by an operator count as the client's: the two have talked."""
    if isinstance(event, AppointmentCanceled):
        return event.canceled_by == "client"
    return isinstance(event, AppointmentBooked | AppointmentConfirmed)


def _is_quiet_for_worker(event: AppointmentEvent) -> bool:
    """Workers get no push for reminders: they can have an appointment every half hour."""
    if isinstance(event, AppointmentCanceled):
        return event.canceled_by == "worker"
    return isinstance(event, AppointmentNear)


def _appointment_notice(
    event: AppointmentEvent, reader_id: UUID, side: str, context: MessageContext
) -> live.AppointmentNotice:
    language = context.language_of(reader_id)
    service, worker = context.names.services[event.service_id], context.names.subjects[event.worker_id]
    when = local_moment(event.starts_at, scheduling.zone(event.time_zone), language)
    words = {"service": service, "worker": worker, "when": when}
    more: dict[str, Any] = {}
    if isinstance(event, AppointmentCanceled):
        more = {"canceled_by": event.canceled_by}
    elif isinstance(event, AppointmentRescheduled):
        zone = scheduling.zone(event.previous_time_zone)
        words["before"] = local_moment(event.previous_starts_at, zone, language)
        more = {
            "previous_starts_at": event.previous_starts_at,
            "previous_worker_id": event.previous_worker_id,
        }
    elif isinstance(event, SlotOffered):
        words["until"] = local_moment(event.expires_at, scheduling.zone(event.time_zone), language)
        more = {"entry_id": event.entry_id, "expires_at": event.expires_at}
    return NOTICES[type(event)](
        appointment_id=event.appointment_id,
        service_id=event.service_id,
        service=service,
        worker_id=event.worker_id,
        worker=worker,
        starts_at=event.starts_at,
        ends_at=event.ends_at,
        time_zone=event.time_zone,
        when=when,
        message=Texts(language)(_text_key(event, reader_id, side), **words),
        **more,
    )


def _text_key(event: AppointmentEvent, reader_id: UUID, side: str) -> str:
    key = NOTICES[type(event)].type.replace(".", "_")
    if isinstance(event, AppointmentCanceled):
        key = f"{key}_by_{event.canceled_by}"
    elif isinstance(event, AppointmentRescheduled) and side and event.worker_id != event.previous_worker_id:
        return f"{key}_to_you" if reader_id == event.worker_user_id else f"{key}_from_you"
    return key + side


NOTICES: dict[type[AppointmentEvent], type[live.AppointmentNotice]] = {
    AppointmentBooked: live.BookedNotice,
    AppointmentRescheduled: live.RescheduledNotice,
    AppointmentConfirmed: live.ConfirmedNotice,
    AppointmentCanceled: live.AppointmentCanceledNotice,
    AppointmentMissed: live.NoShowNotice,
    AppointmentNear: live.ReminderNotice,
    SlotOffered: live.SlotOfferedNotice,
}

APPOINTMENT_NOTICES: Mapping[type[Event], NotificationsOf] = dict.fromkeys(NOTICES, _parties)
