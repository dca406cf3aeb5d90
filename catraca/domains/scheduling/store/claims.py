"""Every statement that takes time or gives it back. What decides is `no_two_claims_overlap`.

Whoever calls these holds the subjects' rows (`hold_subjects`), so nobody waits here in a circle; a bug that
did not would still find the constraint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from catraca.domains.scheduling.model.agendas import (
    AppointmentId,
    ServiceId,
    SessionId,
    SubjectId,
    SubjectNo,
)
from catraca.domains.scheduling.model.spans import Seconds, Span
from catraca.domains.scheduling.model.zones import at
from catraca.platform.database import Db
from catraca.platform.ids import new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A stretch of a worker's time, and of a room's, for clients of one service."""

    id: SessionId
    worker_no: SubjectNo
    room_no: SubjectNo | None
    service_id: ServiceId
    capacity: int
    claim: Span
    begins: Seconds
    finishes: Seconds

    def claims(self) -> str:
        """The rows of `claims` that it takes, as JSON."""
        session = {
            "id": self.id,
            "subject_no": self.worker_no,
            "starts_at": at(self.claim[0]),
            "ends_at": at(self.claim[1]),
            "kind": "session",
            "service_id": self.service_id,
            "begins_at": at(self.begins),
            "finishes_at": at(self.finishes),
            "capacity": self.capacity,
        }
        if self.room_no is None:
            return _json([session])
        its_time = {name: session[name] for name in ("starts_at", "ends_at")}
        room = {"id": new_id(), "subject_no": self.room_no, "kind": "room", "session_id": self.id, **its_time}
        return _json([session, room])


def _json(rows: Sequence[Mapping[str, object]]) -> str:
    return msgspec.json.encode(rows).decode()


# Takes the worker's time and the room's, the rows in $1: all of it, or there is no `session`. Not waiting for
# each other in a circle takes one order, and an insert that gives way instead of failing.
CLAIMED = (
    "claimed AS ("
    "   INSERT INTO claims SELECT * FROM json_populate_recordset(NULL::claims, $1::json) ORDER BY subject_no"
    "   ON CONFLICT ON CONSTRAINT no_two_claims_overlap DO NOTHING RETURNING *),"
    " session AS ("
    "   SELECT *, 1 AS seat_no FROM claimed WHERE kind = 'session'"
    "   AND (SELECT count(*) FROM claimed) = json_array_length($1::json))"
)


async def claim_session(db: Db, session: NewSession) -> bool:
    """Whether all of its time could be taken; if not, undo: part of it may be."""
    return await db.fetchval(
        f"WITH {CLAIMED} SELECT EXISTS (SELECT FROM session)",  # noqa: S608
        session.claims(),
    )


async def hold_session(db: Db, session_id: SessionId) -> None:
    """Nobody sits down in it or leaves it until the transaction ends. Hold its worker's row before."""
    await db.execute("SELECT FROM claims WHERE id = $1 FOR UPDATE", session_id)


async def vacate(db: Db, session_id: SessionId, *, leaving: AppointmentId) -> None:
    """Give up the seat in a session that is held, and with the last one its time.

    Until whoever leaves sits down again, they are in a session that there is not; so they must, or nothing
    of it is committed.
    """
    await db.execute("SET CONSTRAINTS seats_are_in_their_session DEFERRED")
    await db.execute(
        "WITH up AS (UPDATE appointments SET session_id = $3, seat_no = 1 WHERE id = $2)"
        " DELETE FROM claims WHERE id = $1"
        " AND NOT EXISTS (SELECT FROM appointments WHERE session_id = $1 AND id <> $2)",
        session_id,
        leaving,
        new_id(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeOff:
    id: UUID
    starts_at: datetime
    ends_at: datetime
    reason: str | None


async def take_off(
    db: Db, subject_no: SubjectNo, *, starts_at: datetime, ends_at: datetime, reason: str | None
) -> TimeOff | None:
    """None when something else is in that time."""
    row = await db.fetchrow(
        "INSERT INTO claims (id, subject_no, starts_at, ends_at, kind, reason)"
        " VALUES ($1, $2, $3, $4, 'time_off', $5)"
        " ON CONFLICT ON CONSTRAINT no_two_claims_overlap DO NOTHING"
        " RETURNING id, starts_at, ends_at, reason",
        new_id(),
        subject_no,
        starts_at,
        ends_at,
        reason,
    )
    return None if row is None else TimeOff(**row)


async def end_time_off(db: Db, subject_no: SubjectNo, time_off_id: UUID) -> TimeOff | None:
    """What it was; None when there was no such."""
    row = await db.fetchrow(
        "DELETE FROM claims WHERE id = $1 AND subject_no = $2 AND kind = 'time_off'"
        " RETURNING id, starts_at, ends_at, reason",
        time_off_id,
        subject_no,
    )
    return None if row is None else TimeOff(**row)


async def time_off_of(
    db: Db, subject_no: SubjectNo, *, starts_at: datetime, ends_at: datetime, limit: int
) -> list[TimeOff]:
    rows = await db.fetch(
        "SELECT id, starts_at, ends_at, reason FROM claims"
        " WHERE claim_box(subject_no, starts_at, ends_at) && claim_box($1, $2, $3) AND kind = 'time_off'"
        " ORDER BY starts_at LIMIT $4",
        subject_no,
        starts_at,
        ends_at,
        limit,
    )
    return [TimeOff(**row) for row in rows]


async def sessions_in(
    db: Db, subject_no: SubjectNo, *, starts_at: datetime, ends_at: datetime
) -> list[SessionId]:
    """Those whose worker or room it is, and whose time, buffers included, lies in this."""
    rows = await db.fetch(
        "SELECT coalesce(session_id, id) AS id FROM claims"
        " WHERE claim_box(subject_no, starts_at, ends_at) && claim_box($1, $2, $3) AND kind <> 'time_off'",
        subject_no,
        starts_at,
        ends_at,
    )
    return [row["id"] for row in rows]


class Seat(NamedTuple):
    id: AppointmentId
    is_held: bool


async def seats_in(
    db: Db, subject_no: SubjectNo, *, starts_at: datetime, ends_at: datetime, limit: int
) -> list[Seat]:
    """Who sits in those sessions, in the order of their beginning."""
    rows = await db.fetch(
        "SELECT a.id, a.status = 'HELD' AS is_held"
        " FROM claims c JOIN appointments a ON a.session_id = coalesce(c.session_id, c.id)"
        " WHERE claim_box(c.subject_no, c.starts_at, c.ends_at) && claim_box($1, $2, $3)"
        " ORDER BY a.starts_at, a.id LIMIT $4",
        subject_no,
        starts_at,
        ends_at,
        limit,
    )
    return [Seat(**row) for row in rows]


async def find_subject(db: Db, subject_id: SubjectId) -> SubjectNo | None:
    return await db.fetchval("SELECT no FROM subjects WHERE id = $1", subject_id)
