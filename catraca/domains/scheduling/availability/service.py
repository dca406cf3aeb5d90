"""Pages of free slots, the slots nearest to a time, and why a time cannot be booked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice, repeat
from typing import Final, Literal

from catraca.domains.scheduling.agendas.model import Worker
from catraca.domains.scheduling.agendas.service import get_worker, is_own_agenda
from catraca.domains.scheduling.availability import store
from catraca.domains.scheduling.availability.model import (
    TAKEN,
    Agenda,
    ClockNote,
    Conflict,
    Details,
    ServiceSchedule,
    Slot,
    clock_note,
    details_of,
    for_clients,
    nearest,
)
from catraca.domains.scheduling.availability.store import Blockers, read_blockers
from catraca.domains.scheduling.calendar_math.spans import DAY, Seconds, Span
from catraca.domains.scheduling.calendar_math.zones import to_datetime, to_seconds
from catraca.domains.scheduling.errors import RangeInvalid, RangeTooLong
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId, SubjectNo
from catraca.platform.auth import Principal
from catraca.platform.database import Db
from catraca.platform.errors import NotFound

MAX_DAYS: Final = 92
# The spans read one after the other: most pages are full after the first.
WINDOWS: tuple[Seconds, ...] = (2 * DAY, 8 * DAY, 31 * DAY)
# Alternatives are searched, and booked time is counted, so long before and after a time.
AROUND: Seconds = 7 * DAY
MAX_ALTERNATIVES: Final = 5


@dataclass(frozen=True, slots=True)
class SlotsFound:
    slots: list[Slot]
    has_more: bool


async def read_schedule(
    db: Db, service_id: ServiceId, worker_id: SubjectId | None, within: Span, *, idle_before: Seconds
) -> ServiceSchedule:
    """The schedule for starts in a span. Unknown service or worker: 404.

    Worker without this service: no agendas.
    """
    schedule = await store.read_schedule(db, service_id, worker_id, within, idle_before=idle_before)
    if schedule is None:
        raise NotFound
    if worker_id is not None and not schedule.agendas:
        await get_worker(db, worker_id)
    return schedule


async def read_schedule_at(
    db: Db, service_id: ServiceId, worker_id: SubjectId | None, starts: Sequence[Seconds]
) -> ServiceSchedule:
    """The schedule for single starts, sorted. Unknown service: 404."""
    schedule = await store.read_schedule_at(db, service_id, worker_id, starts)
    if schedule is None:
        raise NotFound
    return schedule


async def find_slots(
    db: Db,
    service_id: ServiceId,
    *,
    worker_id: SubjectId | None,
    within: Span,
    after: tuple[Seconds, SubjectId] | None,
    limit: int,
) -> SlotsFound:
    """The free slots of a service, of one worker or all, sorted, that follow `after`."""
    check_range(within)
    start, end = within
    if after is not None:
        start = min(max(start, after[0]), end)
    found: list[Slot] = []
    for length in chain(WINDOWS, repeat(WINDOWS[-1])):
        window = start, min(start + length, end)
        schedule = await read_schedule(db, service_id, worker_id, window, idle_before=start)
        following = (slot for slot in schedule.slots(window) if after is None or slot[:2] > after)
        found.extend(islice(following, limit + 1 - len(found)))
        # Before the notice and after the horizon nothing can be booked. One more day, for clock changes.
        start = max(window[1], schedule.earliest)
        end = min(end, schedule.now + (schedule.service.terms.horizon_days + 1) * DAY)
        if len(found) > limit or start >= end:
            break
    return SlotsFound(found[:limit], has_more=len(found) > limit)


def check_range(within: Span) -> None:
    if within[0] >= within[1]:
        raise RangeInvalid
    if within[1] - within[0] > MAX_DAYS * DAY:
        raise RangeTooLong(most_days=MAX_DAYS)


def around(starts: Seconds) -> Span:
    return starts - AROUND, starts + AROUND


def alternatives_to(schedule: ServiceSchedule, starts: Seconds) -> list[Slot]:
    """The nearest free slots before and after a time, in a schedule that was read `around` it."""
    first, last = around(starts)
    after = islice(schedule.slots((starts, last)), MAX_ALTERNATIVES)
    before = islice(schedule.slots_backwards((first, starts)), MAX_ALTERNATIVES)
    return nearest([*before, *after], starts, limit=MAX_ALTERNATIVES)


def slots_as_data(slots: Sequence[Slot]) -> list[dict[str, object]]:
    """For the data of a refusal."""
    return [
        {
            "worker_id": slot.worker_id,
            "starts_at": to_datetime(slot.starts),
            "ends_at": to_datetime(slot.ends),
            "seats_left": slot.seats_left,
        }
        for slot in slots
    ]


NoWorkerReason = Literal[
    "service_retired", "hours_unreadable", "worker_retired", "not_their_service", "no_worker"
]


@dataclass(frozen=True, slots=True)
class ConflictDetails:
    conflict: Conflict
    details: Details
    # None if the caller may not see them.
    blockers: Blockers | None = None


@dataclass(frozen=True, slots=True)
class WorkerExplanation:
    worker: Worker
    # Empty: the time is a slot.
    conflicts: Sequence[ConflictDetails]
    note: ClockNote | None


@dataclass(frozen=True, slots=True)
class Explanation:
    # Why `workers` is empty.
    no_worker: NoWorkerReason | None
    workers: Sequence[WorkerExplanation]
    alternatives: Sequence[Slot]


async def explain_time(
    db: Db,
    service_id: ServiceId,
    *,
    worker_id: SubjectId | None,
    starts_at: datetime,
    language: str,
    caller: Principal,
) -> Explanation:
    """Explain a time worker by worker.

    Operators see hours and blockers of all workers, workers those of their own agenda, and other callers
    none: they get the codes of the conflicts, and the limits that the service sets.
    """
    starts = to_seconds(starts_at)
    schedule = await read_schedule(db, service_id, worker_id, around(starts), idle_before=starts)
    conflicts = [(agenda, schedule.conflicts(agenda, starts)) for agenda in schedule.agendas]
    blockers = await _find_blockers(db, schedule, conflicts, starts, caller)
    workers = [
        WorkerExplanation(
            agenda.worker,
            [
                ConflictDetails(
                    conflict,
                    _details(conflict, schedule, agenda, starts, language=language, caller=caller),
                    blockers.get((agenda.worker.id, conflict)),
                )
                for conflict in found
            ],
            clock_note(agenda.worker.time_zone, starts, starts_at),
        )
        for agenda, found in conflicts
    ]
    no_worker = None if workers else await _why_no_worker(db, schedule, worker_id)
    return Explanation(no_worker, workers, alternatives_to(schedule, starts))


def _details(
    conflict: Conflict,
    schedule: ServiceSchedule,
    agenda: Agenda,
    starts: Seconds,
    *,
    language: str,
    caller: Principal,
) -> Details:
    details = details_of(conflict, schedule, agenda, starts, language=language)
    sees_hours = caller.has("operator") or is_own_agenda(caller, agenda.worker)
    return details if sees_hours else for_clients(details)


async def _find_blockers(
    db: Db,
    schedule: ServiceSchedule,
    conflicts: Sequence[tuple[Agenda, Sequence[Conflict]]],
    starts: Seconds,
    caller: Principal,
) -> dict[tuple[SubjectId, Conflict], Blockers]:
    """The blockers that the caller may see, by worker and conflict."""
    sees_all = caller.has("operator")
    visible: list[tuple[Worker, Conflict]] = [
        (agenda.worker, conflict)
        for agenda, found in conflicts
        for conflict in found
        if conflict in TAKEN
        and (sees_all or (conflict != "no_room" and is_own_agenda(caller, agenda.worker)))
    ]
    if not visible:
        return {}
    worker_nos = {worker.no for worker, _ in visible}
    room_nos = set(schedule.rooms or ()) if sees_all else set[SubjectNo]()
    found = await read_blockers(db, worker_nos | room_nos, schedule.claim(starts))
    in_rooms = [found[no] for no in sorted(room_nos) if no in found]
    of_rooms = Blockers(
        [one for blockers in in_rooms for one in blockers.appointments],
        [one for blockers in in_rooms for one in blockers.time_off],
    )
    none = Blockers((), ())
    return {
        (worker.id, conflict): of_rooms if conflict == "no_room" else found.get(worker.no, none)
        for worker, conflict in visible
    }


async def _why_no_worker(db: Db, schedule: ServiceSchedule, worker_id: SubjectId | None) -> NoWorkerReason:
    if schedule.service.terms.retired:
        return "service_retired"
    if schedule.unreadable:
        return "hours_unreadable"
    if worker_id is None:
        return "no_worker"
    return "worker_retired" if (await get_worker(db, worker_id)).retired else "not_their_service"
