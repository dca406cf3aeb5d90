"""Every statement on the addresses of workers' calendars, and on what is in them."""

from datetime import timedelta

from catraca.domains.scheduling.model.agendas import Appointment, SubjectNo, Worker
from catraca.domains.scheduling.store.agendas import WORKER, worker_of
from catraca.domains.scheduling.store.appointments import READ, appointment_of
from catraca.platform.database import Db


async def set_feed(db: Db, worker_no: SubjectNo, digest: bytes | None) -> None:
    """From now on by this secret, or by none."""
    await db.execute("UPDATE subjects SET feed_hash = $2 WHERE no = $1", worker_no, digest)


async def worker_behind(db: Db, digest: bytes) -> Worker | None:
    row = await db.fetchrow(f"SELECT {WORKER} FROM subjects s WHERE feed_hash = $1", digest)  # noqa: S608
    return None if row is None else worker_of(row)


async def appointments_around(
    db: Db, worker_no: SubjectNo, *, back: timedelta, ahead: timedelta, limit: int
) -> list[Appointment]:
    """Of these days, in order; a canceled one only as long as a calendar may not have heard of it."""
    rows = await db.fetch(
        f"{READ} WHERE a.worker_no = $1 AND a.starts_at >= (SELECT clock_timestamp() - $2::interval)"
        " AND a.starts_at < (SELECT clock_timestamp() + $3::interval)"
        " AND (a.status IN ('BOOKED', 'CONFIRMED', 'NO_SHOW')"
        "   OR a.status = 'CANCELED' AND a.changed_at >= clock_timestamp() - $2::interval)"
        " ORDER BY a.starts_at, a.id LIMIT $4",
        worker_no,
        back,
        ahead,
        limit,
    )
    return [appointment_of(row) for row in rows]
