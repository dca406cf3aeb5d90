"""Every statement on time that became free while somebody waited for it."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from catraca.domains.scheduling.model.agendas import ServiceId, SubjectId, SubjectNo
from catraca.domains.scheduling.model.spans import Seconds
from catraca.domains.scheduling.model.waiting import Freed, FreedId
from catraca.domains.scheduling.model.zones import at
from catraca.platform.database import Db
from catraca.platform.ids import new_id

SERVICES_AT_ONCE = 100

# Whether `e`, an entry for service `v`, could begin where `f` is free: what it takes must touch it.
_TOUCHES = (
    "e.starts_from < f.ends_at + make_interval(mins => v.buffer_before_minutes)"
    " AND e.starts_before > f.starts_at - make_interval(mins => v.duration_minutes + v.buffer_after_minutes)"
    " AND e.starts_before > clock_timestamp()"
)
# Those who wait for something that takes time of `s`, with anybody or with them.
_AWAITED = (
    "JOIN service_subjects does ON does.subject_no = s.no"
    " JOIN waitlist_entries e ON e.service_id = does.service_id AND e.status = 'WAITING'"
    "   AND (s.kind = 'room' OR e.worker_no IS NULL OR e.worker_no = s.no)"
    " JOIN services v ON v.id = e.service_id AND NOT v.retired"
)


async def note_seat(
    db: Db, service_id: ServiceId, starts_at: datetime, ends_at: datetime, subject_ids: Sequence[SubjectId]
) -> list[FreedId]:
    """What a seat takes of a worker's and a room's time, if somebody waits for it."""
    return await _note(
        db,
        "SELECT s.no, s.kind, $2::timestamptz - make_interval(mins => of.buffer_before_minutes) AS starts_at,"
        "   $3::timestamptz + make_interval(mins => of.buffer_after_minutes) AS ends_at"
        " FROM subjects s JOIN services of ON of.id = $4 WHERE s.id = ANY ($5::uuid[])",
        starts_at,
        ends_at,
        service_id,
        list(subject_ids),
    )


async def note_stretch(
    db: Db, subject_no: SubjectNo, starts_at: datetime, ends_at: datetime
) -> list[FreedId]:
    """Some of a subject's time, if somebody waits for it."""
    return await _note(
        db,
        "SELECT no, kind, $2::timestamptz AS starts_at, $3::timestamptz AS ends_at"
        " FROM subjects WHERE no = $4",
        starts_at,
        ends_at,
        subject_no,
    )


async def note_all(db: Db, subject_no: SubjectNo) -> list[FreedId]:
    """Whatever of a subject's time somebody waits for."""
    return await _note(
        db,
        "SELECT s.no, s.kind, clock_timestamp() AS starts_at, max(e.starts_before) AS ends_at"  # noqa: S608
        f" FROM subjects s {_AWAITED}"
        " WHERE s.no = $2 GROUP BY s.no, s.kind HAVING max(e.starts_before) > clock_timestamp()",
        subject_no,
    )


async def _note(db: Db, stretches: str, *args: object) -> list[FreedId]:
    """One row for each of these that somebody waits for; a session has a worker and a room at most."""
    rows = await db.fetch(
        f"WITH freed AS ({stretches}), awaited AS ("  # noqa: S608
        "   SELECT row_number() OVER () AS place, no, starts_at, ends_at FROM freed AS f"
        f"  WHERE EXISTS (SELECT FROM (SELECT f.no, f.kind) AS s {_AWAITED} WHERE {_TOUCHES}))"
        " INSERT INTO freed_time (id, subject_no, starts_at, ends_at)"
        " SELECT ($1::uuid[])[place], no, starts_at, ends_at FROM awaited RETURNING id",
        [new_id(), new_id()],
        *args,
    )
    return [row["id"] for row in rows]


async def read_freed(db: Db, freed_id: UUID) -> Freed | None:
    row = await db.fetchrow(
        "SELECT f.id, f.subject_no, CASE WHEN s.kind = 'worker' THEN s.id END AS worker_id,"
        "   floor(epoch_s(f.starts_at))::bigint AS first, ceil(epoch_s(f.ends_at))::bigint AS last"
        " FROM freed_time f JOIN subjects s ON s.no = f.subject_no WHERE f.id = $1",
        freed_id,
    )
    if row is None:
        return None
    columns = dict(row)
    return Freed(span=(columns.pop("first"), columns.pop("last")), **columns)


async def services_awaited(db: Db, freed: Freed) -> Sequence[ServiceId]:
    """What somebody waits for that could begin there; whoever waits longest comes first."""
    rows = await db.fetch(
        "SELECT e.service_id FROM freed_time f JOIN subjects s ON s.no = f.subject_no"  # noqa: S608
        f" {_AWAITED}"
        f" WHERE f.id = $1 AND {_TOUCHES} GROUP BY e.service_id ORDER BY min(e.queued_at) LIMIT $2",
        freed.id,
        SERVICES_AT_ONCE,
    )
    return [row["service_id"] for row in rows]


async def leave_until(db: Db, freed_id: FreedId, until: Seconds) -> bool:
    """Nobody wants what begins before that; whether there is more of it."""
    return await db.fetchval(
        "WITH gone AS (DELETE FROM freed_time WHERE id = $1 AND ends_at <= $2),"
        " less AS (UPDATE freed_time SET starts_at = $2 WHERE id = $1 AND ends_at > $2 RETURNING 1)"
        " SELECT EXISTS (SELECT FROM less)",
        freed_id,
        at(until),
    )
