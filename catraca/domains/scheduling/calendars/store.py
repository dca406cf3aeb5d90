"""Statements on calendar links, and the appointments of a calendar."""

from datetime import timedelta

from catraca.domains.scheduling.agendas.model import Worker
from catraca.domains.scheduling.agendas.store import WORKER, worker_of
from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.appointments.store import READ, appointments_of
from catraca.domains.scheduling.shared.model import SubjectNo
from catraca.platform.database import Db


async def set_link_digest(db: Db, worker_no: SubjectNo, digest: bytes | None) -> None:
    """None: the worker has no link."""
    await db.execute("UPDATE subjects SET feed_hash = $2 WHERE no = $1", worker_no, digest)


async def has_link(db: Db, worker_no: SubjectNo) -> bool:
    return await db.fetchval("SELECT feed_hash IS NOT NULL FROM subjects WHERE no = $1", worker_no)


async def read_worker_by_link(db: Db, digest: bytes) -> Worker | None:
    row = await db.fetchrow(f"SELECT {WORKER} FROM subjects s WHERE feed_hash = $1", digest)  # noqa: S608
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
