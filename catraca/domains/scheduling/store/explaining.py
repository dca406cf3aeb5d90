"""What is in somebody's way, for those who may know."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from catraca.domains.scheduling.model.agendas import AppointmentId, SubjectNo
from catraca.domains.scheduling.model.spans import Span
from catraca.domains.scheduling.model.zones import at
from catraca.platform.database import Db

MOST_TOLD = 100


@dataclass(frozen=True, slots=True)
class InTheWay:
    """Appointments, or holds that will be some, and time off."""

    appointments: Sequence[AppointmentId]
    time_off: Sequence[UUID]


async def in_the_way(db: Db, subject_nos: Collection[SubjectNo], within: Span) -> dict[SubjectNo, InTheWay]:
    """Of each subject of whose time something is taken there."""
    rows = await db.fetch(
        "SELECT c.subject_no,"
        "   coalesce((array_agg(DISTINCT a.id) FILTER (WHERE a.id IS NOT NULL))[:$4], '{}') AS appointments,"
        "   coalesce((array_agg(DISTINCT c.id) FILTER (WHERE c.kind = 'time_off'))[:$4], '{}') AS time_off"
        " FROM unnest($1::int[]) AS wanted CROSS JOIN LATERAL ("
        "   SELECT * FROM claims WHERE claim_box(subject_no, starts_at, ends_at) && claim_box(wanted, $2, $3)"
        " ) AS c LEFT JOIN appointments a ON a.session_id = coalesce(c.session_id, c.id)"
        "   AND NOT (a.status = 'HELD' AND a.expires_at <= clock_timestamp())"
        " GROUP BY c.subject_no",
        list(subject_nos),
        at(within[0]),
        at(within[1]),
        MOST_TOLD,
    )
    return {row["subject_no"]: InTheWay(row["appointments"], row["time_off"]) for row in rows}
