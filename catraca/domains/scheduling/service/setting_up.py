"""Who works when, on what, and where. Whoever changes an agenda holds it, so no booking slips in between."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from uuid import UUID

from catraca.domains import people
from catraca.domains.people import UserId
from catraca.domains.scheduling.errors import HolidaysUnknown, TimeZoneUnknown, WorkerTaken
from catraca.domains.scheduling.model.agendas import (
    AppointmentId,
    Room,
    Service,
    ServiceId,
    SubjectId,
    Terms,
    Worker,
)
from catraca.domains.scheduling.model.days_off import Holidays, is_known
from catraca.domains.scheduling.model.hours import Hours, Minutes, Rule
from catraca.domains.scheduling.model.spans import covers, merge
from catraca.domains.scheduling.model.zones import moment_of, zone_names
from catraca.domains.scheduling.service import freeing
from catraca.domains.scheduling.store import agendas as store
from catraca.domains.scheduling.store import appointments as appointment_store
from catraca.platform.database import Db, audit
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_id

# Of the appointments that a change leaves outside the hours, or that are in the way, so many are told.
MOST_TOLD = 100
MOST_LOOKED_AT = 10 * MOST_TOLD


async def create_worker(
    db: Db,
    *,
    name: str,
    time_zone: str,
    user_id: UserId | None,
    holidays: Holidays | None,
    by: UUID,
) -> Worker:
    """Somebody whose time can be booked, once they have hours and services."""
    _check_zone(time_zone, holidays)
    if user_id is not None:
        user = (await people.lock_users(db, [user_id])).get(user_id)
        if user is None or user.erased_at is not None:
            raise NotFound
    worker = await store.insert_worker(
        db,
        SubjectId(new_id()),
        name=name,
        time_zone=time_zone,
        user_id=user_id,
        holidays=holidays,
    )
    if worker is None:
        raise WorkerTaken
    await _record(db, "worker.created", worker.id, by=by)
    return worker


async def change_worker(
    db: Db,
    worker_id: SubjectId,
    *,
    name: str,
    time_zone: str,
    holidays: Holidays | None,
    retired: bool,
    by: UUID,
) -> tuple[Worker, list[AppointmentId]]:
    """Appointments stay at their moment; those that the change leaves outside the hours are told."""
    _check_zone(time_zone, holidays)
    worker = await hold_worker(db, worker_id)
    worker = await store.update_worker(
        db, worker.no, name=name, time_zone=time_zone, holidays=holidays, retired=retired
    )
    await _record(db, "worker.changed", worker_id, by=by)
    await freeing.hours_changed(db, worker.no)
    return worker, await left_outside(db, worker)


async def get_worker(db: Db, worker_id: SubjectId) -> Worker:
    worker = await store.read_worker(db, worker_id)
    if worker is None:
        raise NotFound
    return worker


async def hold_worker(db: Db, worker_id: SubjectId) -> Worker:
    """The worker, whose agenda nobody else writes to until the transaction ends."""
    worker = await get_worker(db, worker_id)
    await store.hold_subjects(db, [worker.no])
    return await get_worker(db, worker_id)


async def set_rules(db: Db, worker_id: SubjectId, rules: Sequence[Rule], *, by: UUID) -> list[AppointmentId]:
    """Weekly hours from now on; answers the appointments that they leave outside."""
    worker = await hold_worker(db, worker_id)
    await store.replace_rules(db, worker.no, rules)
    await _record(db, "worker.rules_set", worker_id, by=by)
    await freeing.hours_changed(db, worker.no)
    return await left_outside(db, worker)


async def set_overrides(
    db: Db, worker_id: SubjectId, days: Mapping[date, Collection[Minutes]], *, by: UUID
) -> list[AppointmentId]:
    """Days with other hours, or none; answers the appointments that they leave outside."""
    worker = await hold_worker(db, worker_id)
    await store.replace_overrides(db, worker.no, days.items())
    await _record(db, "worker.overrides_set", worker_id, by=by)
    await freeing.hours_changed(db, worker.no)
    return await left_outside(db, worker)


async def read_hours(db: Db, worker: Worker) -> Hours:
    rules = await store.rules_of(db, worker.no)
    overrides = await store.overrides_of(db, worker.no)
    return Hours(worker.time_zone, rules, overrides, worker.holidays)


async def left_outside(db: Db, worker: Worker) -> list[AppointmentId]:
    """Upcoming appointments that lie outside the hours as they are now. They stay; somebody must call.

    Whoever is retired has no hours left.
    """
    upcoming = await appointment_store.upcoming_of(db, worker.no, limit=MOST_LOOKED_AT)
    if not upcoming:
        return []
    first, last = moment_of(upcoming[0].starts_at), moment_of(max(one.ends_at for one in upcoming))
    worked = [] if worker.retired else merge((await read_hours(db, worker)).shifts((first, last)))
    outside = [
        one.id for one in upcoming if not covers(worked, moment_of(one.starts_at), moment_of(one.ends_at))
    ]
    return outside[:MOST_TOLD]


async def set_services(
    db: Db, worker_id: SubjectId, service_ids: Sequence[ServiceId], *, by: UUID
) -> list[ServiceId]:
    """What the worker does from now on; what is booked stays."""
    worker = await hold_worker(db, worker_id)
    known = await store.replace_services(db, worker.no, service_ids)
    if len(known) < len(set(service_ids)):
        raise NotFound
    await _record(db, "worker.services_set", worker_id, by=by)
    await freeing.hours_changed(db, worker.no)
    return known


async def create_service(db: Db, terms: Terms, *, by: UUID) -> Service:
    service = await store.insert_service(db, ServiceId(new_id()), terms)
    await _record(db, "service.created", service.id, by=by)
    return service


async def change_service(db: Db, service_id: ServiceId, terms: Terms, *, by: UUID) -> Service:
    """For bookings from now on."""
    service = await store.update_service(db, service_id, terms)
    if service is None:
        raise NotFound
    await _record(db, "service.changed", service_id, by=by)
    return service


async def get_service(db: Db, service_id: ServiceId) -> Service:
    service = await store.read_service(db, service_id)
    if service is None:
        raise NotFound
    return service


async def set_rooms(
    db: Db, service_id: ServiceId, room_ids: Sequence[SubjectId], *, by: UUID
) -> list[SubjectId]:
    """Where the service is done from now on: it needs one of them; none: it needs no room."""
    if not await store.hold_service(db, service_id):
        raise NotFound
    known = await store.replace_rooms(db, service_id, room_ids)
    if len(known) < len(set(room_ids)):
        raise NotFound
    await _record(db, "service.rooms_set", service_id, by=by)
    return known


async def create_room(db: Db, *, name: str, by: UUID) -> Room:
    room = await store.insert_room(db, SubjectId(new_id()), name=name)
    await _record(db, "room.created", room.id, by=by)
    return room


async def get_room(db: Db, room_id: SubjectId) -> Room:
    room = await store.find_room(db, room_id)
    if room is None:
        raise NotFound
    return room


async def change_room(db: Db, room_id: SubjectId, *, name: str, retired: bool, by: UUID) -> Room:
    room = await store.update_room(db, room_id, name=name, retired=retired)
    if room is None:
        raise NotFound
    await _record(db, "room.changed", room_id, by=by)
    return room


def _check_zone(time_zone: str, holidays: Holidays | None) -> None:
    if time_zone not in zone_names():
        raise TimeZoneUnknown
    if holidays is not None and not is_known(holidays):
        raise HolidaysUnknown


async def _record(db: Db, action: str, subject_id: UUID, *, by: UUID) -> None:
    kind = action.partition(".")[0]
    await audit.record(db, actor_id=by, action=action, subject_kind=kind, subject_id=subject_id)
