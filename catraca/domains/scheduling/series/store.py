"""Statements on series."""

from uuid import UUID

from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.appointments.store import READ, appointments_of
from catraca.domains.scheduling.shared.model import SubjectId
from catraca.platform.database import Db


async def read_series(db: Db, series_id: UUID) -> list[Appointment]:
    """All appointments of it, of any status, by start."""
    rows = await db.fetch(f"{READ} WHERE a.series_id = $1 ORDER BY a.starts_at, a.id", series_id)
    return appointments_of(rows)


async def read_worker_id(db: Db, series_id: UUID) -> SubjectId | None:
    """The worker of the first appointment."""
    return await db.fetchval(
        """
        SELECT w.id FROM appointments a JOIN subjects w ON w.no = a.worker_no
        WHERE a.series_id = $1 ORDER BY a.starts_at, a.id LIMIT 1
        """,
        series_id,
    )
