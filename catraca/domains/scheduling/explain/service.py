"""Explains why a time can or cannot be booked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from catraca.domains.scheduling.agendas.model import Worker
from catraca.domains.scheduling.agendas.service import get_worker, is_own_agenda
from catraca.domains.scheduling.availability.model import TAKEN, Agenda, Conflict, ServiceSchedule, Slot
from catraca.domains.scheduling.availability.service import alternatives_to, around, read_schedule
from catraca.domains.scheduling.calendar_math.spans import Seconds
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.catalog.model import Service
from catraca.domains.scheduling.explain.model import ClockNote, Details, clock_note, details_of
from catraca.domains.scheduling.explain.store import Blockers, read_blockers
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId, SubjectNo
from catraca.platform.auth import Principal
from catraca.platform.database import Db

NoWorkerReason = Literal["service_retired", "worker_retired", "not_their_service", "no_worker"]


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
    """Explain a time worker by worker. Operators see all blockers, workers those of their own agenda."""
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
                    details_of(conflict, schedule, agenda, starts, language=language),
                    blockers.get((agenda.worker.id, conflict)),
                )
                for conflict in found
            ],
            clock_note(agenda.worker.time_zone, starts, starts_at),
        )
        for agenda, found in conflicts
    ]
    no_worker = None if workers else await _why_no_worker(db, schedule.service, worker_id)
    return Explanation(no_worker, workers, alternatives_to(schedule, starts))


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


async def _why_no_worker(db: Db, service: Service, worker_id: SubjectId | None) -> NoWorkerReason:
    if service.terms.retired:
        return "service_retired"
    if worker_id is None:
        return "no_worker"
    return "worker_retired" if (await get_worker(db, worker_id)).retired else "not_their_service"
