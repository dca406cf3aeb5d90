"""What is read to know what can be booked: three queries, however many workers there are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import msgspec

from catraca.domains.scheduling.model.agendas import (
    Service,
    ServiceId,
    SubjectId,
    SubjectNo,
    Worker,
)
from catraca.domains.scheduling.model.diary import Lapsed, Session
from catraca.domains.scheduling.model.hours import Minutes, Rule
from catraca.domains.scheduling.model.spans import Seconds, Span
from catraca.domains.scheduling.model.zones import at
from catraca.domains.scheduling.store.agendas import TERMS, WORKER, by_day, service_of, worker_of
from catraca.platform.database import Db, Row


class _Rule(msgspec.Struct, array_like=True):
    weekday: int
    start_minute: int
    end_minute: int
    valid_from: date | None
    valid_to: date | None


_read_rules = msgspec.json.Decoder(list[_Rule]).decode


@dataclass(frozen=True, slots=True)
class Offering:
    """A service, the workers who do it with their weekly rules, and its rooms."""

    service: Service
    workers: Sequence[tuple[Worker, Sequence[Rule]]]
    rooms: Sequence[SubjectNo]
    # Whether it needs a room at all: one that is retired is needed and not there.
    needs_room: bool
    now: Seconds

    @property
    def subject_nos(self) -> list[SubjectNo]:
        return [*(worker.no for worker, _ in self.workers), *self.rooms]


_NUMBERS = [name for name in TERMS.replace(",", "").split() if name not in ("name", "retired")]
# A row for each subject that does it, or one without any.
OFFERED = (
    f"s.kind, {WORKER}, (SELECT epoch_s(clock_timestamp())) AS now,"  # noqa: S608
    "   v.id AS service_id, v.name AS service_name, " + ", ".join(f"v.{name}" for name in _NUMBERS) + ","
    "   v.retired AS service_retired,"
    "   CASE WHEN s.kind = 'worker' THEN (SELECT json_agg(json_build_array("
    "     weekday, start_minute, end_minute, valid_from, valid_to))::text"
    "     FROM worker_rules r WHERE r.subject_no = s.no) END AS rules"
)
OFFERING = (
    "services v"
    " LEFT JOIN (service_subjects ss JOIN subjects s ON s.no = ss.subject_no"
    "            AND (s.kind = 'room' OR NOT s.retired AND ($2::uuid IS NULL OR s.id = $2)))"
    "   ON ss.service_id = v.id"
)


async def read_offering(db: Db, service_id: ServiceId, worker_id: SubjectId | None) -> Offering | None:
    """By one worker or all who do it; None when there is no such service."""
    rows = await db.fetch(
        f"SELECT {OFFERED} FROM {OFFERING} WHERE v.id = $1 ORDER BY s.no",  # noqa: S608
        service_id,
        worker_id,
    )
    return offering_of(rows) if rows else None


def offering_of(rows: Sequence[Row]) -> Offering:
    first = rows[0]
    terms = {name: first[name] for name in _NUMBERS}
    service = service_of(
        {
            "id": first["service_id"],
            "name": first["service_name"],
            "retired": first["service_retired"],
            **terms,
        }
    )
    workers = [(worker_of(row), _rules(row["rules"])) for row in rows if row["kind"] == "worker"]
    rooms = [row for row in rows if row["kind"] == "room"]
    return Offering(
        service,
        [] if service.terms.retired else workers,
        [row["no"] for row in rooms if not row["retired"]],
        needs_room=bool(rooms),
        now=int(first["now"]),
    )


def _rules(text: str | None) -> list[Rule]:
    if text is None:
        return []
    return [
        Rule(one.weekday, one.start_minute, one.end_minute, one.valid_from, one.valid_to)
        for one in _read_rules(text)
    ]


async def overrides_within(
    db: Db, worker_nos: Iterable[SubjectNo], within: Span
) -> dict[SubjectNo, dict[date, list[Minutes]]]:
    """Of the local days around it, wherever that is."""
    rows = await db.fetch(
        "SELECT subject_no, day, start_minute, end_minute FROM worker_overrides"
        " WHERE subject_no = ANY ($1::int[]) AND day BETWEEN $2 AND $3",
        list(worker_nos),
        at(within[0]).date() - timedelta(days=3),
        at(within[1]).date() + timedelta(days=2),
    )
    by_worker: dict[SubjectNo, list[Any]] = {}
    for row in rows:
        by_worker.setdefault(row["subject_no"], []).append(row)
    return {no: by_day(days) for no, days in by_worker.items()}


@dataclass(frozen=True, slots=True)
class Taken:
    """What is taken of a subject's time."""

    busy: Sequence[Span] = ()
    booked: Seconds = 0
    idle_since: Seconds = 0


NOTHING_TAKEN = Taken()


@dataclass(frozen=True, slots=True)
class Reading:
    """What a diary is made of."""

    offering: Offering
    overrides: Mapping[SubjectNo, Mapping[date, Sequence[Minutes]]]
    taken: Mapping[SubjectNo, Taken]
    # Holds that are over and not ended yet.
    lapsed: Sequence[Lapsed]


# Where nobody sits but holds that are over. There are few: their timers end them.
LAPSED = (
    "over AS MATERIALIZED ("
    "   SELECT id, session_id FROM appointments"
    "   WHERE status = 'HELD' AND expires_at <= (SELECT clock_timestamp())),"
    " lapsed AS MATERIALIZED ("
    "   SELECT session_id FROM over EXCEPT"
    "   SELECT a.session_id FROM over JOIN appointments a USING (session_id)"
    "   WHERE a.id NOT IN (SELECT id FROM over))"
)


async def taken_within(
    db: Db, subject_nos: Sequence[SubjectNo], within: Span, *, before: Seconds
) -> tuple[dict[SubjectNo, Taken], list[Lapsed]]:
    """Of each subject of whose time something is taken there; `idle_since` is asked for this moment.

    And the holds whose time is over and that nobody has ended yet: they count for nothing.
    """
    rows = await db.fetch(
        f"WITH {LAPSED}"  # noqa: S608
        " SELECT subject_no, NULL::uuid AS lapsed_session, array_agg(epoch_s(starts_at)::bigint) AS starts,"
        "   array_agg(epoch_s(ends_at)::bigint) AS ends,"
        "   coalesce(sum(epoch_s(finishes_at) - epoch_s(begins_at)), 0)::bigint AS booked,"
        "   coalesce(max(epoch_s(finishes_at)) FILTER (WHERE finishes_at <= $4), 0)::bigint AS idle_since"
        " FROM unnest($1::int[]) AS wanted CROSS JOIN LATERAL ("
        "   SELECT * FROM claims"
        "   WHERE claim_box(subject_no, starts_at, ends_at) && claim_box(wanted, $2, $3)) AS c"
        " WHERE coalesce(session_id, id) NOT IN (SELECT session_id FROM lapsed) GROUP BY subject_no"
        " UNION ALL"
        " SELECT subject_no, o.session_id, ARRAY[epoch_s(starts_at)::bigint],"
        "   ARRAY[epoch_s(ends_at)::bigint], 0, 0"
        " FROM lapsed o JOIN claims c ON c.id = o.session_id OR c.session_id = o.session_id"
        " WHERE subject_no = ANY ($1) AND starts_at < $3 AND ends_at > $2",
        subject_nos,
        at(within[0]),
        at(within[1]),
        at(before),
    )
    taken: dict[SubjectNo, Taken] = {}
    lapsed: list[Lapsed] = []
    for row in rows:
        # The index answers in no order; so few are sorted sooner here.
        spans = sorted(zip(row["starts"], row["ends"], strict=True))
        if row["lapsed_session"] is None:
            taken[row["subject_no"]] = Taken(spans, row["booked"], row["idle_since"])
        else:
            lapsed += [(row["subject_no"], span, row["lapsed_session"]) for span in spans]
    return taken, lapsed


async def sessions_within(
    db: Db, service_id: ServiceId, subject_nos: Sequence[SubjectNo], within: Span
) -> dict[SubjectNo, dict[Seconds, Session]]:
    """A group service's sessions, which others can join, by worker and beginning."""
    rows = await db.fetch(
        "SELECT c.subject_no, epoch_s(c.begins_at)::bigint AS begins, c.id,"
        "   epoch_s(c.finishes_at)::bigint AS finishes, c.capacity, seats.taken"
        " FROM unnest($2::int[]) AS wanted CROSS JOIN LATERAL ("
        "   SELECT * FROM claims WHERE claim_box(subject_no, starts_at, ends_at) && claim_box(wanted, $3, $4)"
        "     AND service_id = $1) AS c"
        " CROSS JOIN LATERAL (SELECT count(*) AS taken FROM appointments a WHERE a.session_id = c.id"
        "   AND NOT (a.status = 'HELD' AND a.expires_at <= (SELECT clock_timestamp()))) AS seats"
        " WHERE seats.taken > 0",
        service_id,
        subject_nos,
        at(within[0]),
        at(within[1]),
    )
    found: dict[SubjectNo, dict[Seconds, Session]] = {}
    for row in rows:
        session = Session(row["id"], row["finishes"], row["capacity"], row["taken"])
        found.setdefault(row["subject_no"], {})[row["begins"]] = session
    return found
