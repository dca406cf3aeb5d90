"""Statements on time off."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from catraca.domains.scheduling.shared.model import AppointmentId, SessionId, SubjectNo
from catraca.platform.database import Db
from catraca.platform.ids import new_id

Range = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOff:
    id: UUID
    starts_at: datetime
    ends_at: datetime
    reason: str | None


class Seat(NamedTuple):
    id: AppointmentId
    is_hold: bool


async def insert_time_off(
    db: Db, subject_no: SubjectNo, within: Range, *, reason: str | None
) -> TimeOff | None:
    """None if the time is in use."""
    row = await db.fetchrow(
        """
        INSERT INTO claims (id, subject_no, starts_at, ends_at, kind, reason)
        VALUES ($1, $2, $3, $4, 'time_off', $5)
        ON CONFLICT ON CONSTRAINT no_two_claims_overlap DO NOTHING
        RETURNING id, starts_at, ends_at, reason
        """,
        new_id(),
        subject_no,
        *within,
        reason,
    )
    return None if row is None else TimeOff(**row)


async def delete_time_off(db: Db, subject_no: SubjectNo, time_off_id: UUID) -> TimeOff | None:
    """Returns what was deleted; None if there is no such time off."""
    row = await db.fetchrow(
        """
        DELETE FROM claims WHERE id = $1 AND subject_no = $2 AND kind = 'time_off'
        RETURNING id, starts_at, ends_at, reason
        """,
        time_off_id,
        subject_no,
    )
    return None if row is None else TimeOff(**row)


async def read_time_off(db: Db, subject_no: SubjectNo, within: Range, *, limit: int) -> list[TimeOff]:
    rows = await db.fetch(
        """
        SELECT id, starts_at, ends_at, reason FROM claims
        WHERE claim_box(subject_no, starts_at, ends_at) && claim_box($1, $2, $3) AND kind = 'time_off'
        ORDER BY starts_at LIMIT $4
        """,
        subject_no,
        *within,
        limit,
    )
    return [TimeOff(**row) for row in rows]


async def read_sessions(db: Db, subject_no: SubjectNo, within: Range) -> list[SessionId]:
    """The sessions of a worker or in a room whose time, with buffers, overlaps the range."""
    rows = await db.fetch(
        """
        SELECT coalesce(session_id, id) AS id FROM claims
        WHERE claim_box(subject_no, starts_at, ends_at) && claim_box($1, $2, $3) AND kind <> 'time_off'
        """,
        subject_no,
        *within,
    )
    return [row["id"] for row in rows]


async def read_seats(db: Db, subject_no: SubjectNo, within: Range, *, limit: int) -> list[Seat]:
    """The seats of those sessions, by start."""
    rows = await db.fetch(
        """
        SELECT a.id, a.status = 'HELD' AS is_hold
        FROM claims c JOIN appointments a ON a.session_id = coalesce(c.session_id, c.id)
        WHERE claim_box(c.subject_no, c.starts_at, c.ends_at) && claim_box($1, $2, $3)
        ORDER BY a.starts_at, a.id LIMIT $4
        """,
        subject_no,
        *within,
        limit,
    )
    return [Seat(**row) for row in rows]
