"""What appointments say to whom: pure, in the reader's own words, by the clocks they were agreed on by."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from catraca.domains import scheduling
from catraca.domains.notifications.model.values import Happened, Telling, Words, World
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
from catraca.platform.texts import local_moment

FOR_WORKER = "_worker"


def appointment_tellings(happened: Happened, world: World) -> Iterator[Telling]:
    """Client and worker, as far as they have accounts. Whoever is both reads it as the client."""
    event_id, event = happened
    if not isinstance(event, AppointmentEvent):
        return
    client_id, worker_id = event.client_id, event.worker_user_id
    if client_id is not None:
        notice = _notice(event, client_id, "", world)
        yield Telling(client_id, event_id, notice, about_id=worker_id, quiet=_is_clients_doing(event))
    if worker_id not in (None, client_id) and not isinstance(event, AppointmentMissed | SlotOffered):
        notice = _notice(event, worker_id, FOR_WORKER, world)
        yield Telling(worker_id, event_id, notice, quiet=_is_no_news_to_workers(event))
    if isinstance(event, AppointmentRescheduled):
        before_id = event.previous_worker_user_id
        if before_id not in (None, client_id, worker_id):
            notice = _notice(event, before_id, FOR_WORKER, world)
            yield Telling(before_id, event_id, notice, about_id=worker_id)


def _is_clients_doing(event: AppointmentEvent) -> bool:
    """Operators book for others too: they will have talked to each other."""
    if isinstance(event, AppointmentCanceled):
        return event.canceled_by == "client"
    return isinstance(event, AppointmentBooked | AppointmentConfirmed)


def _is_no_news_to_workers(event: AppointmentEvent) -> bool:
    """Whoever sees a client every half hour is not woken for each."""
    if isinstance(event, AppointmentCanceled):
        return event.canceled_by == "worker"
    return isinstance(event, AppointmentNear)


def _notice(event: AppointmentEvent, reader_id: UUID, side: str, world: World) -> live.AppointmentNotice:
    language = world.language_of(reader_id)
    service, worker = world.names.services[event.service_id], world.names.subjects[event.worker_id]
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
        message=Words(language)(_key(event, reader_id, side), **words),
        **more,
    )


def _key(event: AppointmentEvent, reader_id: UUID, side: str) -> str:
    key = NOTICES[type(event)].type.replace(".", "_")
    if isinstance(event, AppointmentCanceled):
        key = f"{key}_by_{event.canceled_by}"
    elif isinstance(event, AppointmentRescheduled) and side and event.worker_id != event.previous_worker_id:
        return f"{key}_to_you" if reader_id == event.worker_user_id else f"{key}_from_you"
    return key + side


NOTICES: dict[type[AppointmentEvent], type[live.AppointmentNotice]] = {
    AppointmentBooked: live.Booked,
    AppointmentRescheduled: live.Moved,
    AppointmentConfirmed: live.Agreed,
    AppointmentCanceled: live.CalledOff,
    AppointmentMissed: live.Missed,
    AppointmentNear: live.Near,
    SlotOffered: live.Offered,
}
