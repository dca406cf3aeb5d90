"""What was agreed on for the time to come, a page at a time."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from catraca.domains.scheduling.model.agendas import AppointmentId, Status, SubjectId
from catraca.platform.database import Db

PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """A moment, and what clocks were to show then."""

    appointment_id: AppointmentId
    worker_id: SubjectId
    status: Status
    starts_at: datetime
    local_starts_at: datetime
    time_zone: str
    tzdata_version: str


async def upcoming_agreed(db: Db, *, page: int = PAGE) -> AsyncIterator[Agreed]:
    """All that has not begun, by id; never more than a page of them is in memory."""
    last = UUID(int=0)
    while True:
        rows = await db.fetch(
            "SELECT a.id AS appointment_id, w.id AS worker_id, a.status, a.starts_at, a.local_starts_at,"
            "   a.time_zone, a.tzdata_version"
            " FROM appointments a JOIN subjects w ON w.no = a.worker_no"
            " WHERE a.id > $1 AND a.session_id IS NOT NULL AND a.starts_at > clock_timestamp()"
            " ORDER BY a.id LIMIT $2",
            last,
            page,
        )
        for row in rows:
            yield Agreed(**row)
        if len(rows) < page:
            return
        last = rows[-1]["appointment_id"]
