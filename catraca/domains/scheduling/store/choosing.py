"""What is read to decide about one time: all at once, by whoever holds the agendas."""

from datetime import date, timedelta

import msgspec

from catraca.domains.scheduling.model.agendas import ServiceId, SubjectId
from catraca.domains.scheduling.model.diary import Lapsed
from catraca.domains.scheduling.model.hours import Minutes
from catraca.domains.scheduling.model.spans import Seconds, Span
from catraca.domains.scheduling.model.zones import at
from catraca.domains.scheduling.store.diaries import LAPSED, OFFERED, OFFERING, Reading, Taken, offering_of
from catraca.platform.database import Db, Row


class _Override(msgspec.Struct, array_like=True):
    day: date
    start_minute: int | None
    end_minute: int | None


_read_overrides = msgspec.json.Decoder(list[_Override]).decode


async def read_around(
    db: Db, service_id: ServiceId, worker_id: SubjectId | None, within: Span, *, before: Seconds
) -> Reading | None:
    """Of starts in there, as the diary's three queries would read it; None when there is no such service."""
    rows = await db.fetch(
        f"WITH {LAPSED} SELECT {OFFERED}, taken.*,"  # noqa: S608
        "   CASE WHEN s.kind = 'worker' THEN (SELECT json_agg(json_build_array("
        "     day, start_minute, end_minute))::text FROM worker_overrides o"
        "     WHERE o.subject_no = s.no AND o.day BETWEEN $3 AND $4) END AS overrides"
        f" FROM {OFFERING}"
        " LEFT JOIN LATERAL ("
        "   SELECT array_agg(span) FILTER (WHERE NOT is_over) AS busy,"
        "     sum(epoch_s(finishes_at) - epoch_s(begins_at)) FILTER (WHERE NOT is_over)::bigint AS booked,"
        "     max(epoch_s(finishes_at)) FILTER (WHERE NOT is_over AND finishes_at <= $7)::bigint"
        "       AS idle_since,"
        "     array_agg(span) FILTER (WHERE is_over) AS lapsed,"
        "     array_agg(taken_by) FILTER (WHERE is_over) AS lapsed_in"
        "   FROM (SELECT *, ARRAY[epoch_s(starts_at)::bigint, epoch_s(ends_at)::bigint] AS span,"
        "       coalesce(session_id, id) AS taken_by,"
        "       coalesce(session_id, id) IN (SELECT session_id FROM lapsed) AS is_over FROM claims"
        "     WHERE claim_box(subject_no, starts_at, ends_at) && claim_box(s.no,"
        "       $5::timestamptz - v.buffer_before_minutes * interval '1 minute',"
        "       $6::timestamptz + (v.duration_minutes + v.buffer_after_minutes) * interval '1 minute')) AS c"
        " ) AS taken ON true"
        " WHERE v.id = $1 ORDER BY s.no",
        service_id,
        worker_id,
        at(within[0]).date() - timedelta(days=3),
        at(within[1]).date() + timedelta(days=3),
        at(within[0]),
        at(within[1]),
        at(before),
    )
    if not rows:
        return None
    return Reading(
        offering_of(rows),
        {row["no"]: _by_day(row["overrides"]) for row in rows if row["overrides"]},
        {row["no"]: _taken(row) for row in rows if row["busy"]},
        [one for row in rows if row["lapsed"] for one in _lapsed(row)],
    )


def _by_day(text: str) -> dict[date, list[Minutes]]:
    """A day with a row and no minutes is a day off."""
    days: dict[date, list[Minutes]] = {}
    for one in _read_overrides(text):
        shifts = days.setdefault(one.day, [])
        if one.start_minute is not None and one.end_minute is not None:
            shifts.append((one.start_minute, one.end_minute))
    return days


def _taken(row: Row) -> Taken:
    busy: list[Span] = sorted((start, end) for start, end in row["busy"])
    return Taken(busy, row["booked"] or 0, row["idle_since"] or 0)


def _lapsed(row: Row) -> list[Lapsed]:
    pairs = zip(row["lapsed"], row["lapsed_in"], strict=True)
    return [(row["no"], (start, end), session_id) for (start, end), session_id in pairs]
