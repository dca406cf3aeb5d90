"""Time off is a claim like any other: it shares the constraint that keeps bookings apart."""

from datetime import datetime
from uuid import UUID

from catraca.domains.scheduling.errors import AgendaTaken
from catraca.domains.scheduling.model.agendas import SubjectId, SubjectNo
from catraca.domains.scheduling.service import freeing, holding
from catraca.domains.scheduling.store import claims
from catraca.domains.scheduling.store.agendas import hold_subjects
from catraca.domains.scheduling.store.claims import TimeOff
from catraca.platform.database import Db, audit
from catraca.platform.errors import NotFound

# Of what is in the way, so many are told.
MOST_TOLD = 100


async def take_time_off(
    db: Db,
    subject_id: SubjectId,
    *,
    starts_at: datetime,
    ends_at: datetime,
    reason: str | None,
    by: UUID,
) -> TimeOff:
    """A stretch in which a worker or room is not there. What is booked in it must be moved first."""
    no = await _subject_no(db, subject_id)
    await hold_subjects(db, [no])
    in_it = await claims.sessions_in(db, no, starts_at=starts_at, ends_at=ends_at)
    await holding.end_lapsed_in(db, in_it, waits=False)
    time_off = await claims.take_off(db, no, starts_at=starts_at, ends_at=ends_at, reason=reason)
    if time_off is None:
        raise await _in_the_way(db, no, starts_at=starts_at, ends_at=ends_at)
    await _record(db, "subject.time_off_taken", subject_id, by=by)
    return time_off


async def _in_the_way(db: Db, no: SubjectNo, *, starts_at: datetime, ends_at: datetime) -> AgendaTaken:
    found = await claims.seats_in(db, no, starts_at=starts_at, ends_at=ends_at, limit=MOST_TOLD)
    time_off = await claims.time_off_of(db, no, starts_at=starts_at, ends_at=ends_at, limit=MOST_TOLD)
    return AgendaTaken(
        appointments=[seat.id for seat in found if not seat.is_held],
        holds=[seat.id for seat in found if seat.is_held],
        time_off=[one.id for one in time_off],
    )


async def end_time_off(db: Db, subject_id: SubjectId, time_off_id: UUID, *, by: UUID) -> None:
    no = await _subject_no(db, subject_id)
    await hold_subjects(db, [no])
    ended = await claims.end_time_off(db, no, time_off_id)
    if ended is None:
        raise NotFound
    await _record(db, "subject.time_off_ended", subject_id, by=by)
    await freeing.stretch_freed(db, no, ended.starts_at, ended.ends_at)


async def read_time_off(
    db: Db, subject_id: SubjectId, *, starts_at: datetime, ends_at: datetime, limit: int
) -> list[TimeOff]:
    no = await _subject_no(db, subject_id)
    return await claims.time_off_of(db, no, starts_at=starts_at, ends_at=ends_at, limit=limit)


async def _subject_no(db: Db, subject_id: SubjectId) -> SubjectNo:
    no = await claims.find_subject(db, subject_id)
    if no is None:
        raise NotFound
    return no


async def _record(db: Db, action: str, subject_id: UUID, *, by: UUID) -> None:
    await audit.record(db, actor_id=by, action=action, subject_kind="subject", subject_id=subject_id)
