"""Statements on freed time, and on the waitlist entries that it concerns."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NewType
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.calendar_math.spans import Seconds, Span
from catraca.domains.scheduling.calendar_math.zones import to_datetime
from catraca.domains.scheduling.shared.model import AppointmentId, EntryId, ServiceId, SubjectId, SubjectNo
from catraca.platform.database import Db
from catraca.platform.ids import new_id

FreedTimeId = NewType("FreedTimeId", UUID)
MAX_SERVICES = 100

# Entry `e` for service `v` may start in freed time `f`: an appointment then would overlap it.
_CAN_START = """
    e.starts_from < f.ends_at + make_interval(mins => v.buffer_before_minutes)
    AND e.starts_before > f.starts_at - make_interval(mins => v.duration_minutes + v.buffer_after_minutes)
    AND e.starts_before > clock_timestamp()
"""
# Entries `e` that wait for a service `v` of subject `s`.
_WAITING = """
    JOIN service_subjects does ON does.subject_no = s.no
    JOIN waitlist_entries e ON e.service_id = does.service_id AND e.status = 'WAITING'
      AND (s.kind = 'room' OR e.worker_no IS NULL OR e.worker_no = s.no)
    JOIN services v ON v.id = e.service_id AND NOT v.retired
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedTime:
    id: FreedTimeId
    subject_no: SubjectNo
    # None: the subject is a room.
    worker_id: SubjectId | None
    span: Span


async def insert_freed_seat(
    db: Db, service_id: ServiceId, subject_ids: Collection[SubjectId], starts_at: datetime, ends_at: datetime
) -> list[FreedTimeId]:
    """The time of a seat with its buffers, for each subject, if an entry waits for it."""
    return await _insert(
        db,
        """
        SELECT s.no, s.kind, $2::timestamptz - make_interval(mins => v.buffer_before_minutes) AS starts_at,
          $3::timestamptz + make_interval(mins => v.buffer_after_minutes) AS ends_at
        FROM subjects s JOIN services v ON v.id = $4 WHERE s.id = ANY ($5::uuid[])
        """,
        starts_at,
        ends_at,
        service_id,
        list(subject_ids),
    )


async def insert_freed_time(
    db: Db, subject_no: SubjectNo, starts_at: datetime, ends_at: datetime
) -> list[FreedTimeId]:
    """A span of a subject's time, if an entry waits for it."""
    return await _insert(
        db,
        """
        SELECT no, kind, $2::timestamptz AS starts_at, $3::timestamptz AS ends_at
        FROM subjects WHERE no = $4
        """,
        starts_at,
        ends_at,
        subject_no,
    )


async def insert_all_time(db: Db, subject_no: SubjectNo) -> list[FreedTimeId]:
    """A subject's time from now to the end of the last range that an entry waits for."""
    return await _insert(
        db,
        f"""
        SELECT s.no, s.kind, clock_timestamp() AS starts_at, max(e.starts_before) AS ends_at
        FROM subjects s {_WAITING}
        WHERE s.no = $2 GROUP BY s.no, s.kind HAVING max(e.starts_before) > clock_timestamp()
        """,  # noqa: S608
        subject_no,
    )


async def _insert(db: Db, spans: str, *args: object) -> list[FreedTimeId]:
    """One row for each span that an entry waits for; at most two: a worker's and a room's."""
    rows = await db.fetch(
        f"""
        WITH freed AS ({spans}), awaited AS (
          SELECT row_number() OVER () AS place, no, starts_at, ends_at FROM freed AS f
          WHERE EXISTS (SELECT FROM (SELECT f.no, f.kind) AS s {_WAITING} WHERE {_CAN_START}))
        INSERT INTO freed_time (id, subject_no, starts_at, ends_at)
        SELECT ($1::uuid[])[place], no, starts_at, ends_at FROM awaited RETURNING id
        """,  # noqa: S608
        [new_id(), new_id()],
        *args,
    )
    return [row["id"] for row in rows]


async def read_freed_time(db: Db, freed_id: UUID) -> FreedTime | None:
    row = await db.fetchrow(
        """
        SELECT f.id, f.subject_no, CASE WHEN s.kind = 'worker' THEN s.id END AS worker_id,
          floor(epoch_s(f.starts_at))::bigint AS first, ceil(epoch_s(f.ends_at))::bigint AS last
        FROM freed_time f JOIN subjects s ON s.no = f.subject_no WHERE f.id = $1
        """,
        freed_id,
    )
    if row is None:
        return None
    columns = dict(row)
    return FreedTime(span=(columns.pop("first"), columns.pop("last")), **columns)


async def awaited_services(db: Db, freed: FreedTime) -> Sequence[ServiceId]:
    """The services that entries wait for and that may start in this time; longest wait first."""
    rows = await db.fetch(
        f"""
        SELECT e.service_id FROM freed_time f JOIN subjects s ON s.no = f.subject_no {_WAITING}
        WHERE f.id = $1 AND {_CAN_START}
        GROUP BY e.service_id ORDER BY min(e.queued_at) LIMIT $2
        """,  # noqa: S608
        freed.id,
        MAX_SERVICES,
    )
    return [row["service_id"] for row in rows]


async def cut_freed_time(db: Db, freed_id: FreedTimeId, until: Seconds) -> bool:
    """Drop the time before `until`; False if nothing is left, and then the row is deleted."""
    return await db.fetchval(
        """
        WITH gone AS (DELETE FROM freed_time WHERE id = $1 AND ends_at <= $2),
        cut AS (UPDATE freed_time SET starts_at = $2 WHERE id = $1 AND ends_at > $2 RETURNING 1)
        SELECT EXISTS (SELECT FROM cut)
        """,
        freed_id,
        to_datetime(until),
    )


async def close_offer(db: Db, hold_id: AppointmentId, status: str) -> UserId | None:
    """Set the status of the entry that has this offer; WAITING moves it to the end. Returns its client."""
    return await db.fetchval(
        """
        UPDATE waitlist_entries SET status = $2, hold_id = CASE WHEN $2 = 'BOOKED' THEN hold_id END,
          queued_at = CASE WHEN $2 = 'WAITING' THEN clock_timestamp() ELSE queued_at END,
          changed_at = clock_timestamp()
        WHERE hold_id = $1 AND status = 'OFFERED' RETURNING client_id
        """,
        hold_id,
        status,
    )


async def waiting_entries(db: Db, client_id: UserId) -> list[EntryId]:
    rows = await db.fetch(
        "SELECT id FROM waitlist_entries WHERE client_id = $1 AND status = 'WAITING'", client_id
    )
    return [row["id"] for row in rows]
