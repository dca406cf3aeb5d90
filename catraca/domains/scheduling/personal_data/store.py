"""Statements that export or erase personal data."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.appointments.store import READ, appointments_of
from catraca.domains.scheduling.shared.model import SubjectNo
from catraca.platform.database import Db

# Replaces an erased name. An index has the same value in its condition.
ERASED_NAME: Final = "-"
_UPCOMING = (
    "a.client_id = $1 AND a.status IN ('HELD', 'BOOKED', 'CONFIRMED') AND a.starts_at > clock_timestamp()"
)


async def read_all(db: Db, client_id: UserId, *, limit: int) -> list[Appointment]:
    """A client's appointments and holds, latest first."""
    rows = await db.fetch(
        f"{READ} WHERE a.client_id = $1 ORDER BY a.starts_at DESC, a.id LIMIT $2", client_id, limit
    )
    return appointments_of(rows)


async def read_upcoming(db: Db, client_id: UserId) -> list[Appointment]:
    """A client's appointments and holds that have not begun."""
    return appointments_of(await db.fetch(f"{READ} WHERE {_UPCOMING} ORDER BY a.starts_at, a.id", client_id))


async def read_subjects(db: Db, user_id: UserId) -> list[SubjectNo]:
    """The agendas that an erasure changes: of the person's upcoming appointments, and the person's own."""
    rows = await db.fetch(
        f"""
        SELECT a.worker_no AS no FROM appointments a WHERE {_UPCOMING}
        UNION SELECT done.subject_no FROM appointments a
          JOIN service_subjects done ON done.service_id = a.service_id AND done.kind = 'room'
          WHERE {_UPCOMING}
        UNION SELECT no FROM subjects WHERE user_id = $1
        """,  # noqa: S608
        user_id,
    )
    return [row["no"] for row in rows]


async def erase_client(db: Db, client_id: UserId) -> None:
    """Erase the texts on a client's appointments. Times and services stay."""
    await db.execute(
        "UPDATE appointments SET cancel_reason = NULL WHERE client_id = $1 AND cancel_reason IS NOT NULL",
        client_id,
    )


async def erase_worker(db: Db, worker_no: SubjectNo) -> list[UUID]:
    """Erase a worker's name, account and texts, and retire the worker; returns time off that had a reason."""
    await db.execute(
        "UPDATE subjects SET name = $2, user_id = NULL, feed_hash = NULL, feed_granted_at = NULL,"
        " retired = true WHERE no = $1",
        worker_no,
        ERASED_NAME,
    )
    with_reason = await db.fetch(
        # By box, as claims are indexed.
        """
        UPDATE claims SET reason = NULL WHERE kind = 'time_off' AND reason IS NOT NULL
          AND claim_box(subject_no, starts_at, ends_at) && claim_box($1, '1970-01-01Z', '2200-01-01Z')
        RETURNING id
        """,
        worker_no,
    )
    await db.execute(
        """
        UPDATE appointments SET cancel_reason = NULL
        WHERE worker_no = $1 AND canceled_by = 'worker' AND cancel_reason IS NOT NULL
        """,
        worker_no,
    )
    return [row["id"] for row in with_reason]


async def erase_walk_ins(db: Db, *, older_than: timedelta, limit: int) -> int:
    """Erase names and contacts of clients without an account on old appointments; returns how many."""
    return await db.fetchval(
        """
        WITH old AS (
          SELECT id FROM appointments
          WHERE client_name <> '-' AND ends_at < (SELECT clock_timestamp() - $1::interval)
          ORDER BY ends_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED),
        erased AS (
          UPDATE appointments a SET client_name = $3, client_contact = NULL, cancel_reason = NULL
          FROM old WHERE a.id = old.id RETURNING 1)
        SELECT count(*) FROM erased
        """,
        older_than,
        limit,
        ERASED_NAME,
    )
