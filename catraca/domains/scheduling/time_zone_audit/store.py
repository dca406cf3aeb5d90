"""The agreed times of upcoming appointments."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from catraca.domains.scheduling.appointments.model import Status
from catraca.domains.scheduling.shared.model import AppointmentId, SubjectId
from catraca.platform.database import Db

PAGE_ROWS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedTime:
    """The moment and the local time that were stored when an appointment was booked."""

    appointment_id: AppointmentId
    worker_id: SubjectId
    status: Status
    starts_at: datetime
    local_starts_at: datetime
    time_zone: str
    tzdata_version: str


async def read_upcoming(db: Db, *, page_rows: int = PAGE_ROWS) -> AsyncIterator[AgreedTime]:
    """Of all appointments and holds that have not begun, by id; at most one page is in memory."""
    last = UUID(int=0)
    while True:
        rows = await db.fetch(
            """
            SELECT a.id AS appointment_id, w.id AS worker_id, a.status, a.starts_at, a.local_starts_at,
              a.time_zone, a.tzdata_version
            FROM appointments a JOIN subjects w ON w.no = a.worker_no
            WHERE a.id > $1 AND a.session_id IS NOT NULL AND a.starts_at > clock_timestamp()
            ORDER BY a.id LIMIT $2
            """,
            last,
            page_rows,
        )
        for row in rows:
            yield AgreedTime(**row)
        if len(rows) < page_rows:
            return
        last = rows[-1]["appointment_id"]
