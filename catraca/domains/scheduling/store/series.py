"""Every statement on series: appointments that were booked together."""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from uuid import UUID

from catraca.domains.scheduling.model.agendas import Appointment, AppointmentId, SubjectId
from catraca.domains.scheduling.model.series import SeriesId
from catraca.domains.scheduling.store.appointments import READ, appointment_of
from catraca.platform.database import Db
from catraca.platform.errors import Refusal


async def make_series(db: Db, series_id: SeriesId, appointment_ids: Collection[AppointmentId]) -> None:
    await db.execute(
        "UPDATE appointments SET series_id = $1 WHERE id = ANY ($2::uuid[])",
        series_id,
        list(appointment_ids),
    )


async def read_series(db: Db, series_id: UUID) -> list[Appointment]:
    """All of it, whatever became of each, in the order of their beginning."""
    rows = await db.fetch(f"{READ} WHERE a.series_id = $1 ORDER BY a.starts_at, a.id", series_id)
    return [appointment_of(row) for row in rows]


async def worker_of_series(db: Db, series_id: UUID) -> SubjectId | None:
    """With whom it begins."""
    return await db.fetchval(
        "SELECT w.id FROM appointments a JOIN subjects w ON w.no = a.worker_no"
        " WHERE a.series_id = $1 ORDER BY a.starts_at, a.id LIMIT 1",
        series_id,
    )


async def upcoming_of(db: Db, series_id: UUID) -> list[AppointmentId]:
    """Those that have not begun and are to take place."""
    rows = await db.fetch(
        "SELECT id FROM appointments WHERE series_id = $1 AND status IN ('BOOKED', 'CONFIRMED')"
        " AND starts_at > clock_timestamp() ORDER BY starts_at, id",
        series_id,
    )
    return [row["id"] for row in rows]


@asynccontextmanager
async def undone_if_refused(db: Db) -> AsyncGenerator[None]:
    """What the block did is undone if it is refused, and only that: the transaction can go on."""
    await db.execute("SAVEPOINT before_this_one")
    try:
        yield
    except Refusal:
        await db.execute("ROLLBACK TO SAVEPOINT before_this_one")
        raise
    await db.execute("RELEASE SAVEPOINT before_this_one")
