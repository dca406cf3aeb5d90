"""Workers and their hours. A change locks the worker's row, so that no booking comes in between."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Final
from uuid import UUID

from catraca.domains import people
from catraca.domains.people import UserId
from catraca.domains.scheduling.agendas import store
from catraca.domains.scheduling.agendas.model import Worker, WorkerHours
from catraca.domains.scheduling.calendar_math.holidays import Holidays, is_known
from catraca.domains.scheduling.calendar_math.hours import Hours, Minutes, WeeklyRule
from catraca.domains.scheduling.calendar_math.spans import covers, merge
from catraca.domains.scheduling.calendar_math.zones import zone_names
from catraca.domains.scheduling.errors import HolidaysUnknown, TimeZoneUnknown, WorkerTaken
from catraca.domains.scheduling.freed_time.service import record_changed_hours
from catraca.domains.scheduling.shared.model import AppointmentId, SubjectId
from catraca.domains.scheduling.shared.service import record_audit
from catraca.platform.auth import Principal
from catraca.platform.database import Db
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_id

# Of the appointments outside new hours, so many are listed, and so many are checked.
MAX_LISTED: Final = 100
MAX_CHECKED: Final = 10 * MAX_LISTED

# Reads without a decision.
find_workers = store.find_workers
find_worker_of_user = store.read_worker_of_user


# Workers


async def create_worker(
    db: Db,
    *,
    name: str,
    time_zone: str,
    user_id: UserId | None,
    holidays: Holidays | None,
    by: UUID,
) -> Worker:
    _check_place(time_zone, holidays)
    if user_id is not None:
        user = (await people.lock_users(db, [user_id])).get(user_id)
        if user is None or user.erased_at is not None:
            raise NotFound
    worker = await store.insert_worker(
        db, SubjectId(new_id()), name=name, time_zone=time_zone, user_id=user_id, holidays=holidays
    )
    if worker is None:
        raise WorkerTaken
    await record_audit(db, "worker.created", worker.id, by=by)
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
) -> tuple[Worker, Sequence[AppointmentId]]:
    """Returns the worker and the upcoming appointments outside the new hours. Appointments are not moved."""
    _check_place(time_zone, holidays)
    worker = await lock_worker(db, worker_id)
    worker = await store.update_worker(
        db, worker.no, name=name, time_zone=time_zone, holidays=holidays, retired=retired
    )
    await record_audit(db, "worker.changed", worker_id, by=by)
    await record_changed_hours(db, worker.no)
    return worker, (await _with_outside(db, worker)).outside


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
    worker = await store.lock_worker(db, worker_id)
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


def _check_place(time_zone: str, holidays: Holidays | None) -> None:
    if time_zone not in zone_names():
        raise TimeZoneUnknown
    if holidays is not None and not is_known(holidays):
        raise HolidaysUnknown
