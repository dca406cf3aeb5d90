"""The schedule of a service, and what occupies a span."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple
from uuid import UUID

import msgspec
import structlog
from prometheus_client import Counter

from catraca.domains.scheduling.agendas.model import Service
from catraca.domains.scheduling.agendas.store import (
    TERM_NAMES,
    WORKER,
    Override,
    by_day,
    service_of,
    worker_of,
)
from catraca.domains.scheduling.availability.model import Agenda, ExpiredHold, ServiceSchedule, Session
from catraca.domains.scheduling.calendar_math.hours import (
    UTC_DAYS_AFTER,
    UTC_DAYS_BEFORE,
    Hours,
    WeeklyRule,
)
from catraca.domains.scheduling.calendar_math.spans import Seconds, Span
from catraca.domains.scheduling.calendar_math.zones import to_datetime
from catraca.domains.scheduling.shared.model import AppointmentId, ServiceId, SessionId, SubjectId, SubjectNo
from catraca.platform.database import Db, Row

log = structlog.get_logger()
UNREADABLE = Counter(
    "catraca_unreadable_workers_total",
    "Workers left out of a schedule because their stored data cannot be read.",
)

_decode_rules = msgspec.json.Decoder(list[tuple[int, int, int, date | None, date | None]]).decode
_decode_overrides = msgspec.json.Decoder(list[Override]).decode
# Start, id, end, capacity, seats taken.
_decode_sessions = msgspec.json.Decoder(list[tuple[int, SessionId, int, int, int]]).decode

MAX_LISTED: Final = 100

_TERMS = ", ".join(f"v.{name} AS term_{name}" for name in TERM_NAMES)

# The time of a booking with its buffers, for starts between two moments.
_CLAIMED = """claim_box(s.no, {first}::timestamptz - v.buffer_before_minutes * interval '1 minute',
          {last}::timestamptz + (v.duration_minutes + v.buffer_after_minutes) * interval '1 minute')"""
_CLAIMS_WITHIN = f"""
        FROM claims
        WHERE claim_box(subject_no, starts_at, ends_at)
          && {_CLAIMED.format(first="q.first", last="q.last")}"""
_CLAIMS_AT = f"""
        FROM (
          SELECT DISTINCT ON (claims.id, claims.subject_no) claims.* FROM unnest($6::timestamptz[]) AS starts
          JOIN claims
            ON claim_box(subject_no, starts_at, ends_at) && {_CLAIMED.format(first="starts", last="starts")}
        ) AS claims"""  # noqa: S608


# Lists of ids as text: PostgreSQL has no array of arrays of different lengths.
_QUESTIONS = """unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[])
      WITH ORDINALITY AS q (service_id, worker_ids, first, last, idle_before, place)"""
# PostgreSQL plans a statement on arrays for every call, which takes longer than reading one agenda.
_ONE_QUESTION = """(SELECT $1::uuid, $2::text, $3::timestamptz, $4::timestamptz, $5::timestamptz, 1)
      AS q (service_id, worker_ids, first, last, idle_before, place)"""


def _schedule(claims: str, questions: str) -> str:
    """For each question, a row for each worker and room of the service; without any, one row with none."""
    return f"""
    WITH expired AS MATERIALIZED (
      SELECT id, session_id FROM appointments
      WHERE status = 'HELD' AND expires_at <= (SELECT clock_timestamp())),
    -- Sessions in which all seats are expired holds. Few: their timers close them.
    expired_sessions AS MATERIALIZED (
      SELECT session_id FROM expired
      EXCEPT SELECT a.session_id FROM expired JOIN appointments a USING (session_id)
      WHERE a.id NOT IN (SELECT id FROM expired))
    SELECT q.place, s.kind, {WORKER}, (SELECT epoch_s(clock_timestamp())) AS now,
      v.id AS service_id, {_TERMS},
      CASE WHEN s.kind = 'worker' THEN (
        SELECT json_agg(json_build_array(weekday, start_minute, end_minute, valid_from, valid_to))::text
        FROM worker_rules r WHERE r.subject_no = s.no) END AS rules,
      -- The reason for these days is next to UTC_DAYS_BEFORE.
      CASE WHEN s.kind = 'worker' THEN (
        SELECT json_agg(json_build_array(day, start_minute, end_minute))::text
        FROM worker_overrides o WHERE o.subject_no = s.no
          AND o.day >= (q.first AT TIME ZONE 'UTC')::date - {UTC_DAYS_BEFORE}
          AND o.day <= ((q.last + v.duration_minutes * interval '1 minute') AT TIME ZONE 'UTC')::date
            + {UTC_DAYS_AFTER}) END AS overrides,
      claimed.*
    FROM {questions}
    JOIN services v ON v.id = q.service_id
    LEFT JOIN LATERAL (
      SELECT s.* FROM service_subjects ss JOIN subjects s ON s.no = ss.subject_no
      WHERE ss.service_id = v.id AND ss.kind = 'room'
      UNION ALL
      SELECT s.* FROM service_subjects ss JOIN subjects s ON s.no = ss.subject_no
      WHERE ss.service_id = v.id AND ss.kind = 'worker' AND NOT s.retired AND q.worker_ids IS NULL
      UNION ALL
      SELECT s.* FROM subjects s
      WHERE s.id = ANY (q.worker_ids::uuid[]) AND NOT s.retired AND EXISTS (
        SELECT FROM service_subjects
        WHERE service_id = v.id AND kind = 'worker' AND subject_no = s.no
        -- Without OFFSET it would be a join with all workers of the service.
        OFFSET 0)
    ) AS s ON true
    LEFT JOIN LATERAL (
      SELECT array_agg(epoch_s(starts_at)::bigint) FILTER (WHERE NOT is_expired) AS busy_starts,
        array_agg(epoch_s(ends_at)::bigint) FILTER (WHERE NOT is_expired) AS busy_ends,
        sum(epoch_s(finishes_at) - epoch_s(begins_at)) FILTER (WHERE NOT is_expired)::bigint
          AS booked_seconds,
        max(epoch_s(finishes_at)) FILTER (WHERE NOT is_expired AND finishes_at <= q.idle_before)::bigint
          AS idle_since,
        array_agg(epoch_s(starts_at)::bigint) FILTER (WHERE is_expired) AS expired_starts,
        array_agg(epoch_s(ends_at)::bigint) FILTER (WHERE is_expired) AS expired_ends,
        array_agg(coalesce(session_id, id)) FILTER (WHERE is_expired) AS expired_ids,
        (json_agg(json_build_array(
            epoch_s(begins_at)::bigint, id, epoch_s(finishes_at)::bigint, capacity, seats_taken))
          FILTER (WHERE seats_taken > 0))::text AS sessions
      FROM (
        SELECT claims.*, coalesce(session_id, id) IN (SELECT session_id FROM expired_sessions) AS is_expired,
          CASE WHEN v.capacity > 1 AND service_id = v.id THEN (
            SELECT count(*) FROM appointments a
            WHERE a.session_id = claims.id AND a.id NOT IN (SELECT id FROM expired)) END AS seats_taken
        {claims}) AS c
    ) AS claimed ON true
    ORDER BY q.place, s.no
"""  # noqa: S608


_SCHEDULES_WITHIN = _schedule(_CLAIMS_WITHIN, _QUESTIONS)
_SCHEDULE_WITHIN = _schedule(_CLAIMS_WITHIN, _ONE_QUESTION)
_SCHEDULE_AT = _schedule(_CLAIMS_AT, _ONE_QUESTION)


class ScheduleQuestion(NamedTuple):
    """The schedule of a service for starts in a span, of some workers."""

    service_id: ServiceId
    # None: all workers of the service.
    worker_ids: Collection[SubjectId] | None
    within: Span
    # `idle_since` of an agenda is the end of its last session before this.
    idle_before: Seconds

    def parameters(self) -> tuple[object, ...]:
        first, last = self.within
        return (
            self.service_id,
            None if self.worker_ids is None else f"{{{','.join(map(str, self.worker_ids))}}}",
            to_datetime(first),
            to_datetime(last),
            to_datetime(self.idle_before),
        )


def only(worker_id: SubjectId | None) -> tuple[SubjectId] | None:
    """The `worker_ids` of a question about one worker, or about all."""
    return None if worker_id is None else (worker_id,)


async def read_schedule(
    db: Db, service_id: ServiceId, worker_id: SubjectId | None, within: Span, *, idle_before: Seconds
) -> ServiceSchedule | None:
    """The schedule for starts in a span, of one worker or all; None if there is no such service.

    A worker whose stored data cannot be read is left out, logged and counted: the others can be booked.
    """
    question = ScheduleQuestion(service_id, only(worker_id), within, idle_before)
    return _schedule_of(await db.fetch(_SCHEDULE_WITHIN, *question.parameters()), within)


async def read_schedules(db: Db, questions: Sequence[ScheduleQuestion]) -> list[ServiceSchedule | None]:
    """The same for several questions, in their order, in one statement."""
    if not questions:
        return []
    parameters = [list(column) for column in zip(*(one.parameters() for one in questions), strict=True)]
    rows = await db.fetch(_SCHEDULES_WITHIN, *parameters)
    by_place = {place: list(found) for place, found in groupby(rows, key=itemgetter("place"))}
    return [
        _schedule_of(by_place.get(place, ()), question.within)
        for place, question in enumerate(questions, start=1)
    ]


async def read_schedule_at(
    db: Db, service_id: ServiceId, worker_id: SubjectId | None, starts: Sequence[Seconds]
) -> ServiceSchedule | None:
    """The same for single starts, sorted, in one statement: it decides about these starts only."""
    question = ScheduleQuestion(service_id, only(worker_id), (starts[0], starts[-1]), starts[0])
    rows = await db.fetch(_SCHEDULE_AT, *question.parameters(), [to_datetime(one) for one in starts])
    return _schedule_of(rows, (starts[0], starts[-1] + 1))


def _schedule_of(rows: Sequence[Row], within: Span) -> ServiceSchedule | None:
    if not rows:
        return None
    service = _service_of(rows[0])
    worked = (within[0], within[1] + service.terms.duration_minutes * 60)
    rooms = [row for row in rows if row["kind"] == "room"]
    agendas, unreadable = _agendas_of([row for row in rows if row["kind"] == "worker"], worked)
    if unreadable:
        UNREADABLE.inc(len(unreadable))
        log.warning("workers_unreadable", worker_ids=[str(one) for one in unreadable[:MAX_LISTED]])
    return ServiceSchedule(
        service,
        [] if service.terms.retired else agendas,
        # A service with rooms needs one, also if all of them are retired.
        {row["no"]: _busy(row) for row in rooms if not row["retired"]} if rooms else None,
        int(rows[0]["now"]),
        [hold for row in rows if row["expired_ids"] for hold in _expired_holds(row)],
        unreadable,
    )


def _service_of(row: Row) -> Service:
    return service_of({"id": row["service_id"], **{name: row[f"term_{name}"] for name in TERM_NAMES}})


def _agendas_of(rows: Sequence[Row], worked: Span) -> tuple[list[Agenda], list[SubjectId]]:
    """The agendas of workers, and the ids of workers whose stored data cannot be read."""
    agendas: list[Agenda] = []
    unreadable: list[SubjectId] = []
    for row in rows:
        try:
            agenda = _agenda_of(row, worked)
        except msgspec.DecodeError:
            unreadable.append(row["id"])
            continue
        # A newer version of the libraries may not have a zone or place that was stored.
        if agenda.worker.has_known_place:
            agendas.append(agenda)
        else:
            unreadable.append(row["id"])
    return agendas, unreadable


def _agenda_of(row: Row, worked: Span) -> Agenda:
    worker = worker_of(row)
    rules = _rules_of(row["rules"]) if row["rules"] else ()
    overrides = by_day(_decode_overrides(row["overrides"])) if row["overrides"] else {}
    return Agenda(
        worker,
        Hours(worker.time_zone, rules, overrides, worker.holidays),
        worked,
        _busy(row),
        _sessions(row["sessions"]) if row["sessions"] else {},
        row["booked_seconds"] or 0,
        row["idle_since"] or 0,
    )


# Workers have the same hours at every request, and many have the hours of others.
@lru_cache(maxsize=4096)
def _rules_of(text: str) -> Sequence[WeeklyRule]:
    return [WeeklyRule(*rule) for rule in _decode_rules(text)]


def _busy(row: Row) -> Sequence[Span]:
    # The index returns them in no order; sorting so few is faster here.
    starts = row["busy_starts"]
    return sorted(zip(starts, row["busy_ends"], strict=True)) if starts else ()


def _sessions(text: str) -> dict[Seconds, Session]:
    return {
        begins: Session(own_id, finishes, capacity, seats_taken)
        for begins, own_id, finishes, capacity, seats_taken in _decode_sessions(text)
    }


def _expired_holds(row: Row) -> list[ExpiredHold]:
    each = zip(row["expired_starts"], row["expired_ends"], row["expired_ids"], strict=True)
    return [ExpiredHold(row["no"], (start, end), session_id) for start, end, session_id in each]


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
