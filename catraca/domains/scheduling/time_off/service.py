"""Take, end and list time off."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains.scheduling.agendas.service import record_audit
from catraca.domains.scheduling.appointments.service import close_expired_holds
from catraca.domains.scheduling.errors import AgendaTaken, RangeInvalid
from catraca.domains.scheduling.freed_time.service import record_freed_time
from catraca.domains.scheduling.shared.model import SubjectId, SubjectNo
from catraca.domains.scheduling.shared.store import lock_subject
from catraca.domains.scheduling.time_off import store
from catraca.domains.scheduling.time_off.store import Range, TimeOff
from catraca.platform.database import Db
from catraca.platform.errors import NotFound

# Of the bookings in the way, so many are listed.
MAX_LISTED: Final = 100


async def take_time_off(
    db: Db, subject_id: SubjectId, within: Range, *, reason: str | None, by: UUID
) -> TimeOff:
    """Block a worker's or room's time. Refused while it is in use: bookings must be moved first."""
    _check_range(within)
    no = await _lock(db, subject_id)
    await close_expired_holds(db, await store.read_sessions(db, no, within), skip_locked=True)
    time_off = await store.insert_time_off(db, no, within, reason=reason)
    if time_off is None:
        raise await _agenda_taken(db, no, within)
    await record_audit(db, "subject.time_off_taken", subject_id, by=by)
    return time_off


async def _agenda_taken(db: Db, no: SubjectNo, within: Range) -> AgendaTaken:
    seats = await store.read_seats(db, no, within, limit=MAX_LISTED)
    time_off = await store.read_time_off(db, no, within, limit=MAX_LISTED)
    return AgendaTaken(
        appointments=[seat.id for seat in seats if not seat.is_hold],
        holds=[seat.id for seat in seats if seat.is_hold],
        time_off=[one.id for one in time_off],
    )


async def end_time_off(db: Db, subject_id: SubjectId, time_off_id: UUID, *, by: UUID) -> None:
    """Delete time off; the waitlist may offer the time."""
    no = await _lock(db, subject_id)
    ended = await store.delete_time_off(db, no, time_off_id)
    if ended is None:
        raise NotFound
    await record_audit(db, "subject.time_off_ended", subject_id, by=by)
    await record_freed_time(db, no, starts_at=ended.starts_at, ends_at=ended.ends_at)


async def find_time_off(db: Db, subject_no: SubjectNo, within: Range, *, limit: int) -> list[TimeOff]:
    """Time off that overlaps the range."""
    _check_range(within)
    return await store.read_time_off(db, subject_no, within, limit=limit)


def _check_range(within: Range) -> None:
    if within[1] - within[0] < timedelta(seconds=1):
        raise RangeInvalid


async def _lock(db: Db, subject_id: SubjectId) -> SubjectNo:
    no = await lock_subject(db, subject_id)
    if no is None:
        raise NotFound
    return no
