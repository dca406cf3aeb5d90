"""Statements on calendar links, and the appointments of a calendar."""

from datetime import datetime, timedelta

from catraca.domains.scheduling.agendas.model import Worker
from catraca.domains.scheduling.agendas.store import WORKER, worker_of
from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.appointments.store import READ, appointments_of
from catraca.domains.scheduling.shared.model import SubjectNo
from catraca.platform.database import Db

# Until the tokens of the worker's account are revoked, as by a change of its roles.
WORKS = "feed_hash IS NOT NULL AND access_holds(user_id, feed_granted_at)"


async def set_link(db: Db, worker_no: SubjectNo, digest: bytes, *, granted_at: datetime | None) -> None:
    """Replace the worker's link. Without `granted_at` it is granted now."""
    await db.execute(
        "UPDATE subjects SET feed_hash = $2, feed_granted_at = coalesce($3, clock_timestamp()) WHERE no = $1",
        worker_no,
        digest,
        granted_at,
    )


async def delete_link(db: Db, worker_no: SubjectNo) -> None:
    await db.execute("UPDATE subjects SET feed_hash = NULL, feed_granted_at = NULL WHERE no = $1", worker_no)


async def has_link(db: Db, worker_no: SubjectNo) -> bool:
    return await db.fetchval(f"SELECT {WORKS} FROM subjects WHERE no = $1", worker_no)  # noqa: S608


async def read_worker_by_link(db: Db, digest: bytes) -> Worker | None:
    row = await db.fetchrow(f"SELECT {WORKER} FROM subjects s WHERE feed_hash = $1 AND {WORKS}", digest)  # noqa: S608
    return None if row is None else worker_of(row)


async def appointments_around(
    db: Db, worker_no: SubjectNo, *, back: timedelta, ahead: timedelta, limit: int
) -> list[Appointment]:
    """Sorted by start. Canceled ones stay for `back`, so that calendars remove them."""
    rows = await db.fetch(
        f"""
        {READ} WHERE a.worker_no = $1 AND a.starts_at >= (SELECT clock_timestamp() - $2::interval)
          AND a.starts_at < (SELECT clock_timestamp() + $3::interval)
          AND (a.status IN ('BOOKED', 'CONFIRMED', 'NO_SHOW')
            OR a.status = 'CANCELED' AND a.changed_at >= clock_timestamp() - $2::interval)
        ORDER BY a.starts_at, a.id LIMIT $4
        """,
        worker_no,
        back,
        ahead,
        limit,
    )
    return appointments_of(rows)
