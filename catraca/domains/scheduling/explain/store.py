"""The bookings and time off that occupy a span."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from catraca.domains.scheduling.calendar_math.spans import Span
from catraca.domains.scheduling.calendar_math.zones import to_datetime
from catraca.domains.scheduling.shared.model import AppointmentId, SubjectNo
from catraca.platform.database import Db

MAX_LISTED: Final = 100


@dataclass(frozen=True, slots=True)
class Blockers:
    # Appointments and holds.
    appointments: Sequence[AppointmentId]
    time_off: Sequence[UUID]


async def read_blockers(
    db: Db, subject_nos: Collection[SubjectNo], within: Span
) -> dict[SubjectNo, Blockers]:
    """The blockers of each subject that has any in the span."""
    rows = await db.fetch(
        """
        SELECT c.subject_no,
          coalesce((array_agg(DISTINCT a.id) FILTER (WHERE a.id IS NOT NULL))[:$4], '{}') AS appointments,
          coalesce((array_agg(DISTINCT c.id) FILTER (WHERE c.kind = 'time_off'))[:$4], '{}') AS time_off
        FROM unnest($1::int[]) AS wanted
        CROSS JOIN LATERAL (
          SELECT * FROM claims
          WHERE claim_box(subject_no, starts_at, ends_at) && claim_box(wanted, $2, $3)) AS c
        LEFT JOIN appointments a ON a.session_id = coalesce(c.session_id, c.id)
          AND NOT (a.status = 'HELD' AND a.expires_at <= clock_timestamp())
        GROUP BY c.subject_no
        """,
        list(subject_nos),
        to_datetime(within[0]),
        to_datetime(within[1]),
        MAX_LISTED,
    )
    return {row["subject_no"]: Blockers(row["appointments"], row["time_off"]) for row in rows}
