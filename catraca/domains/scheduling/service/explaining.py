"""Why a time is not offered, in so many words that an operator can act on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from catraca.domains.scheduling.model.agendas import Service, ServiceId, SubjectId, SubjectNo, Worker
from catraca.domains.scheduling.model.diary import TAKEN, Diary, Fault, Slot
from catraca.domains.scheduling.model.explaining import Details, Note, details_of, note_on
from catraca.domains.scheduling.model.spans import Seconds
from catraca.domains.scheduling.model.zones import moment_of
from catraca.domains.scheduling.service import looking
from catraca.domains.scheduling.service.looking import Explanation
from catraca.domains.scheduling.store.agendas import read_worker
from catraca.domains.scheduling.store.explaining import InTheWay, in_the_way
from catraca.platform.database import Db

# Why nobody can be asked at all.
Nobody = Literal["service_retired", "worker_retired", "not_their_service", "no_worker"]


@dataclass(frozen=True, slots=True)
class Reason:
    fault: Fault
    details: Details
    # For those only who may know.
    in_the_way: InTheWay | None = None


@dataclass(frozen=True, slots=True)
class OfWorker:
    worker: Worker
    reasons: Sequence[Reason]
    note: Note | None


@dataclass(frozen=True, slots=True)
class Told:
    nobody: Nobody | None
    workers: Sequence[OfWorker]
    alternatives: Sequence[Slot]


async def explain(
    db: Db,
    service_id: ServiceId,
    *,
    worker_id: SubjectId | None,
    starts_at: datetime,
    language: str,
    sees: Callable[[Worker], bool],
    sees_rooms: bool,
) -> Told:
    """Worker by worker; who or what is in the way of those only whose agenda the caller `sees`."""
    starts = moment_of(starts_at)
    diary, explained, alternatives = await looking.explain_slot(
        db, service_id, worker_id=worker_id, starts=starts
    )
    ways = await _ways(db, diary, explained, starts, sees, sees_rooms=sees_rooms)
    workers = [
        OfWorker(
            one.agenda.worker,
            [
                Reason(
                    fault,
                    details_of(fault, diary, one.agenda, starts, language=language),
                    ways.get((one.agenda.worker.id, fault)),
                )
                for fault in one.faults
            ],
            note_on(one.agenda.worker.time_zone, starts, starts_at),
        )
        for one in explained
    ]
    nobody = None if workers else await _why_nobody(db, diary.service, worker_id)
    return Told(nobody, workers, alternatives)


async def _ways(
    db: Db,
    diary: Diary,
    explained: Sequence[Explanation],
    starts: Seconds,
    sees: Callable[[Worker], bool],
    *,
    sees_rooms: bool,
) -> dict[tuple[SubjectId, Fault], InTheWay]:
    """By worker and fault."""
    asked: list[tuple[Worker, Fault]] = [
        (one.agenda.worker, fault)
        for one in explained
        for fault in one.faults
        if fault in TAKEN and (sees_rooms if fault == "no_room" else sees(one.agenda.worker))
    ]
    if not asked:
        return {}
    nos = {worker.no for worker, _ in asked}
    rooms = set(diary.rooms or ()) if sees_rooms else set[SubjectNo]()
    found = await in_the_way(db, nos | rooms, diary.claim(starts))
    in_rooms = [found[no] for no in sorted(rooms) if no in found]
    every_room = InTheWay(
        [one for way in in_rooms for one in way.appointments],
        [one for way in in_rooms for one in way.time_off],
    )
    nothing = InTheWay((), ())
    return {
        (worker.id, fault): every_room if fault == "no_room" else found.get(worker.no, nothing)
        for worker, fault in asked
    }


async def _why_nobody(db: Db, service: Service, worker_id: SubjectId | None) -> Nobody:
    if service.terms.retired:
        return "service_retired"
    if worker_id is None:
        return "no_worker"
    worker = await read_worker(db, worker_id)
    return "worker_retired" if worker is not None and worker.retired else "not_their_service"
