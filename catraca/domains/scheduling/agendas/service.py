"""Workers with their hours, services and rooms.

A change of an agenda locks the worker's row, so that no booking comes in between.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Final
from uuid import UUID

from catraca.domains import people
from catraca.domains.people import UserId
from catraca.domains.scheduling.agendas import store
from catraca.domains.scheduling.agendas.model import (
    NewWorker,
    Room,
    Service,
    ServiceTerms,
    Worker,
    WorkerDetails,
    WorkerHours,
)
from catraca.domains.scheduling.calendar_math.holidays import is_known
from catraca.domains.scheduling.calendar_math.hours import Hours, Minutes, WeeklyRule
from catraca.domains.scheduling.calendar_math.spans import covers, merge
from catraca.domains.scheduling.calendar_math.zones import zone_names
from catraca.domains.scheduling.errors import HolidaysUnknown, TimeZoneUnknown, WorkerTaken
from catraca.domains.scheduling.freed_time.service import record_changed_hours
from catraca.domains.scheduling.shared.model import AppointmentId, ServiceId, SubjectId
from catraca.domains.scheduling.shared.store import read_names
from catraca.platform.auth import Principal
from catraca.platform.database import Db, audit
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_id

# Of the appointments outside new hours, so many are listed, and so many are checked.
MAX_LISTED: Final = 100
MAX_CHECKED: Final = 10 * MAX_LISTED

# Reads without a decision.
find_workers = store.find_workers
find_worker_of_user = store.read_worker_of_user
find_services = store.find_services
find_rooms = store.find_rooms
names_of = read_names


# Workers


async def create_worker(db: Db, details: WorkerDetails, *, user_id: UserId | None = None, by: UUID) -> Worker:
    _check_place(details)
    if user_id is not None:
        user = (await people.lock_users(db, [user_id])).get(user_id)
        if user is None or user.erased_at is not None:
            raise NotFound
    worker = await store.insert_worker(db, SubjectId(new_id()), details, user_id)
    if worker is None:
        raise WorkerTaken
    await record_audit(db, "worker.created", worker.id, by=by)
    return worker


async def change_worker(
    db: Db, worker_id: SubjectId, details: WorkerDetails, *, by: UUID
) -> tuple[Worker, Sequence[AppointmentId]]:
    """Returns the worker and the upcoming appointments outside the new hours. Appointments are not moved."""
    _check_place(details)
    worker = await lock_worker(db, worker_id)
    worker = await store.update_worker(db, worker.no, details)
    await record_audit(db, "worker.changed", worker_id, by=by)
    await record_changed_hours(db, worker.no)
    return worker, (await _with_outside(db, worker)).outside


def _check_place(details: WorkerDetails) -> None:
    if details.time_zone not in zone_names():
        raise TimeZoneUnknown
    if details.holidays is not None and not is_known(details.holidays):
        raise HolidaysUnknown


async def find_workers_of_unknown_places(db: Db) -> list[SubjectId]:
    """Workers who are not retired and whose time zone or holidays this version does not know."""
    return [one.id for one in await store.read_active_workers(db) if not one.has_known_place]


async def get_worker(db: Db, worker_id: SubjectId) -> Worker:
    worker = await store.read_worker(db, worker_id)
    if worker is None:
        raise NotFound
    return worker


async def get_managed_worker(db: Db, caller: Principal, worker_id: SubjectId) -> Worker:
    """The worker, if the caller may manage the agenda: that worker and operators may."""
    worker = await get_worker(db, worker_id)
    if not is_own_agenda(caller, worker):
        caller.require("operator")
    return worker


def is_own_agenda(caller: Principal, worker: Worker) -> bool:
    return caller.has("worker") and worker.user_id == caller.id


async def lock_worker(db: Db, worker_id: SubjectId) -> Worker:
    worker = await store.read_worker(db, worker_id, lock=True)
    if worker is None:
        raise NotFound
    return worker


# Hours


async def get_hours(db: Db, worker: Worker) -> WorkerHours:
    rules = await store.read_rules(db, worker.no)
    overrides = await store.read_overrides(db, worker.no)
    return WorkerHours(worker, Hours(worker.time_zone, rules, overrides, worker.holidays))


async def set_rules(db: Db, worker_id: SubjectId, rules: Sequence[WeeklyRule], *, by: UUID) -> WorkerHours:
    """Replace the weekly rules."""
    worker = await lock_worker(db, worker_id)
    await store.replace_rules(db, worker.no, rules)
    await record_audit(db, "worker.rules_set", worker_id, by=by)
    await record_changed_hours(db, worker.no)
    return await _with_outside(db, worker)


async def set_overrides(
    db: Db, worker_id: SubjectId, days: Mapping[date, Collection[Minutes]], *, by: UUID
) -> WorkerHours:
    """Replace the overrides."""
    worker = await lock_worker(db, worker_id)
    await store.replace_overrides(db, worker.no, days.items())
    await record_audit(db, "worker.overrides_set", worker_id, by=by)
    await record_changed_hours(db, worker.no)
    return await _with_outside(db, worker)


async def _with_outside(db: Db, worker: Worker) -> WorkerHours:
    """The hours and the upcoming appointments outside them; a retired worker has no hours left."""
    found = await get_hours(db, worker)
    upcoming = await store.read_upcoming(db, worker.no, limit=MAX_CHECKED)
    if not upcoming:
        return found
    first, last = upcoming[0][1][0], max(end for _, (_, end) in upcoming)
    worked = [] if worker.retired else merge(found.hours.shifts((first, last)))
    outside = [own_id for own_id, (start, end) in upcoming if not covers(worked, start, end)]
    return WorkerHours(worker, found.hours, outside[:MAX_LISTED])


async def create_service(db: Db, terms: ServiceTerms, *, by: UUID) -> Service:
    service = Service(id=ServiceId(new_id()), terms=terms)
    await store.insert_service(db, service.id, terms)
    await record_audit(db, "service.created", service.id, by=by)
    return service


async def open_service(
    db: Db, service_id: ServiceId, terms: ServiceTerms, workers: Sequence[NewWorker], *, by: UUID
) -> bool:
    """Create a service and its workers; False if the service exists. Safe to repeat, also at once."""
    if not await store.insert_service(db, service_id, terms):
        return False
    for new in workers:
        worker = await create_worker(db, WorkerDetails(name=new.name, time_zone=new.time_zone), by=by)
        await set_rules(db, worker.id, new.rules, by=by)
        await set_services(db, worker.id, [service_id], by=by)
    return True


async def change_service(db: Db, service_id: ServiceId, terms: ServiceTerms, *, by: UUID) -> Service:
    """The new terms are for later bookings; booked appointments stay as they are."""
    if not await store.update_service(db, service_id, terms):
        raise NotFound
    await record_audit(db, "service.changed", service_id, by=by)
    return Service(id=service_id, terms=terms)


async def get_service(db: Db, service_id: ServiceId) -> Service:
    service = await store.read_service(db, service_id)
    if service is None:
        raise NotFound
    return service


async def set_services(
    db: Db, worker_id: SubjectId, service_ids: Sequence[ServiceId], *, by: UUID
) -> list[ServiceId]:
    """Replace the worker's services. Booked appointments stay."""
    worker = await lock_worker(db, worker_id)
    known = await store.replace_services(db, worker.no, service_ids)
    if len(known) < len(set(service_ids)):
        raise NotFound
    await record_audit(db, "worker.services_set", worker_id, by=by)
    await record_changed_hours(db, worker.no)
    return known


async def get_services_of(db: Db, worker_id: SubjectId) -> list[ServiceId]:
    worker = await get_worker(db, worker_id)
    return await store.read_services_of(db, worker.no)


async def set_rooms(
    db: Db, service_id: ServiceId, room_ids: Sequence[SubjectId], *, by: UUID
) -> list[SubjectId]:
    """Replace the service's rooms: a booking takes one of them. Without rooms, a booking takes none."""
    if not await store.lock_service(db, service_id):
        raise NotFound
    known = await store.replace_rooms(db, service_id, room_ids)
    if len(known) < len(set(room_ids)):
        raise NotFound
    await record_audit(db, "service.rooms_set", service_id, by=by)
    return known


async def get_rooms_of(db: Db, service_id: ServiceId) -> list[SubjectId]:
    await get_service(db, service_id)
    return await store.read_rooms_of(db, service_id)


async def create_room(db: Db, *, name: str, by: UUID) -> Room:
    room = await store.insert_room(db, SubjectId(new_id()), name=name)
    await record_audit(db, "room.created", room.id, by=by)
    return room


async def get_room(db: Db, room_id: SubjectId) -> Room:
    room = await store.read_room(db, room_id)
    if room is None:
        raise NotFound
    return room


async def change_room(db: Db, room_id: SubjectId, *, name: str, retired: bool, by: UUID) -> Room:
    room = await store.update_room(db, room_id, name=name, retired=retired)
    if room is None:
        raise NotFound
    await record_audit(db, "room.changed", room_id, by=by)
    return room


async def record_audit(db: Db, action: str, subject_id: UUID, *, by: UUID) -> None:
    """`action` is the kind of the subject and what was done: `worker.created`."""
    kind = action.partition(".")[0]
    await audit.record(db, actor_id=by, action=action, subject_kind=kind, subject_id=subject_id)
