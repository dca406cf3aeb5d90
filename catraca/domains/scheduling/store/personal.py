"""Every statement that tells or takes what is kept of people with their appointments."""

from datetime import timedelta
from typing import Final

from catraca.domains.people import UserId
from catraca.domains.scheduling.model.agendas import Appointment, SubjectNo
from catraca.domains.scheduling.store.appointments import READ, appointment_of
from catraca.platform.database import Db

# In the place of a name that is kept no longer. The index of walk-ins who still have one says it as well.
NOBODY: Final = "-"
AHEAD = "a.client_id = $1 AND a.status IN ('HELD', 'BOOKED', 'CONFIRMED') AND a.starts_at > clock_timestamp()"


async def appointments_of(db: Db, client_id: UserId, *, limit: int) -> list[Appointment]:
    """All of a client's, the latest first; holds as well."""
    rows = await db.fetch(
        f"{READ} WHERE a.client_id = $1 ORDER BY a.starts_at DESC, a.id LIMIT $2", client_id, limit
    )
    return [appointment_of(row) for row in rows]


async def ahead_of(db: Db, client_id: UserId) -> list[Appointment]:
    """What a client has booked or holds, and has not begun."""
    rows = await db.fetch(f"{READ} WHERE {AHEAD} ORDER BY a.starts_at, a.id", client_id)
    return [appointment_of(row) for row in rows]


async def subjects_concerned(db: Db, user_id: UserId) -> list[SubjectNo]:
    """Whose agendas change when the person leaves: of those they go to, and their own."""
    rows = await db.fetch(
        f"SELECT a.worker_no AS no FROM appointments a WHERE {AHEAD}"  # noqa: S608
        " UNION SELECT s.no FROM appointments a JOIN service_subjects done ON done.service_id = a.service_id"
        f"   JOIN subjects s ON s.no = done.subject_no AND s.kind = 'room' WHERE {AHEAD}"
        " UNION SELECT no FROM subjects WHERE user_id = $1",
        user_id,
    )
    return [row["no"] for row in rows]


async def forget_client(db: Db, client_id: UserId) -> None:
    """What was written about their appointments; when and what for stays."""
    await db.execute(
        "UPDATE appointments SET cancel_reason = NULL WHERE client_id = $1 AND cancel_reason IS NOT NULL",
        client_id,
    )


async def forget_worker(db: Db, worker_no: SubjectNo) -> None:
    """From now on somebody without a name or an account, who takes no more appointments."""
    await db.execute(
        "UPDATE subjects SET name = $2, user_id = NULL, feed_hash = NULL, retired = true WHERE no = $1",
        worker_no,
        NOBODY,
    )
    await db.execute(
        "UPDATE claims SET reason = NULL WHERE kind = 'time_off' AND reason IS NOT NULL"
        # By box, as claims are indexed.
        " AND claim_box(subject_no, starts_at, ends_at) && claim_box($1, '1970-01-01Z', '2200-01-01Z')",
        worker_no,
    )
    await db.execute(
        "UPDATE appointments SET cancel_reason = NULL"
        " WHERE worker_no = $1 AND canceled_by = 'worker' AND cancel_reason IS NOT NULL",
        worker_no,
    )


async def has_feed(db: Db, worker_no: SubjectNo) -> bool:
    return await db.fetchval("SELECT feed_hash IS NOT NULL FROM subjects WHERE no = $1", worker_no)


async def forget_walk_ins(db: Db, *, older_than: timedelta, limit: int) -> int:
    """Take names and contacts from appointments of long ago; answers of how many."""
    return await db.fetchval(
        "WITH old AS (SELECT id FROM appointments WHERE client_name <> '-'"
        "             AND ends_at < (SELECT clock_timestamp() - $1::interval)"
        "             ORDER BY ends_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED),"
        " forgotten AS (UPDATE appointments a SET client_name = $3, client_contact = NULL,"
        "     cancel_reason = NULL FROM old WHERE a.id = old.id RETURNING 1)"
        " SELECT count(*) FROM forgotten",
        older_than,
        limit,
        NOBODY,
    )


async def prune_holds(db: Db, *, older_than: timedelta, limit: int) -> int:
    """Drop holds that came to nothing; answers how many."""
    return await db.fetchval(
        "WITH dead AS (SELECT id FROM appointments h WHERE status = 'EXPIRED'"
        # Whoever waits is not offered it again.
        "              AND NOT EXISTS (SELECT FROM waitlist_entries e"
        "                WHERE e.id = h.waitlist_entry_id AND e.status IN ('WAITING', 'OFFERED'))"
        "              AND changed_at < (SELECT clock_timestamp() - $1::interval)"
        "              ORDER BY changed_at LIMIT $2 FOR UPDATE SKIP LOCKED),"
        " gone AS (DELETE FROM appointments a USING dead WHERE a.id = dead.id RETURNING 1)"
        " SELECT count(*) FROM gone",
        older_than,
        limit,
    )
