"""Checks that agendas, appointments, events and the answers to clients agree."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from catraca.platform.database import Db
from tests.storms.appointments.data import Act
from tests.storms.callers import JsonAnswer
from tests.storms.checks import failed_checks
from tests.storms.rides.checks import EVENTS

SHOWN = 5
Answered = tuple[Act, JsonAnswer]
APPOINTMENT_EVENTS = f"""
    SELECT aggregate_id AS id, routing_key, (body ->> 'sequence')::integer AS sequence,
        (body ->> 'starts_at')::timestamptz AS starts_at, (body ->> 'worker_id')::uuid AS worker_id
    FROM ({EVENTS}) t WHERE exchange = 'appointments.events'"""
# Each query must return no row.
CHECKS = {
    # Compares all pairs, independent of constraints.
    "claims of one subject overlap": """
        SELECT a.id, b.id AS other_id, a.subject_no FROM claims a
        JOIN claims b ON a.subject_no = b.subject_no AND a.id < b.id
        WHERE a.starts_at < b.ends_at AND b.starts_at < a.ends_at""",
    "clients are in two places": """
        SELECT a.id, b.id AS other_id FROM appointments a
        JOIN appointments b ON a.client_id = b.client_id AND a.id < b.id
        WHERE a.status IN ('HELD', 'BOOKED', 'CONFIRMED') AND b.status IN ('HELD', 'BOOKED', 'CONFIRMED')
        AND NOT a.made_by_operator AND NOT b.made_by_operator
        AND a.starts_at < b.ends_at AND b.starts_at < a.ends_at""",
    "active appointments do not match a claim of their worker": """
        SELECT a.id FROM appointments a LEFT JOIN claims c ON c.id = a.session_id
        WHERE a.status IN ('HELD', 'BOOKED', 'CONFIRMED', 'NO_SHOW')
        AND (c.subject_no, c.begins_at, c.finishes_at)
            IS DISTINCT FROM (a.worker_no, a.starts_at, a.ends_at)""",
    "sessions have no client, or more clients than seats": """
        SELECT c.id, count(a.id) FROM claims c LEFT JOIN appointments a ON a.session_id = c.id
        WHERE c.kind = 'session' GROUP BY 1 HAVING count(a.id) NOT BETWEEN 1 AND c.capacity""",
    "bookings do not have exactly one event, or events have no booking": f"""
        SELECT * FROM (SELECT id FROM appointments WHERE status NOT IN ('HELD', 'EXPIRED')) a
        FULL JOIN (SELECT id, count(*) AS events FROM ({APPOINTMENT_EVENTS}) n
            WHERE routing_key = 'appointment.booked' GROUP BY 1) n ON n.id = a.id
        WHERE a.id IS NULL OR events IS DISTINCT FROM 1""",
}
AT_REST = {
    "holds did not expire": "SELECT id, expires_at FROM appointments WHERE status = 'HELD'",
    "timers of holds are left": "SELECT subject_id FROM timers WHERE kind = 'scheduling.hold_due'",
}
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


async def broken_by(db: Db, answered: Sequence[Answered]) -> list[str]:
    """Failed checks of the database by itself and against the answers that clients got."""
    rows = {row["id"]: row for row in await db.fetch("SELECT id, client_id, status FROM appointments")}
    events = {
        (row["id"], row["sequence"], row["starts_at"], row["worker_id"])
        for row in await db.fetch(APPOINTMENT_EVENTS)
    }
    away = {row["id"] for row in await db.fetch("SELECT id FROM claims WHERE kind = 'time_off'")}
    shown = [(act, one) for act, answer in answered if answer.status < 300 for one in _appointments(answer)]
    made = {_id(one): act.who for act, one in shown if act.verb in ("book", "hold")}
    broken = {
        "answers name appointments of other clients": [
            one for one, who in made.items() if one not in rows or rows[one]["client_id"] != who
        ],
        "appointments are in no answer": rows.keys() - made.keys(),
        "answers match no event": [
            one for act, one in shown if act.verb != "hold" and _as_event(one) not in events
        ],
        "canceled appointments have another status": [
            _id(one) for act, one in shown if act.verb == "cancel" and rows[_id(one)]["status"] != "CANCELED"
        ],
        "time off was accepted and is not stored": [
            one for act, answer in answered for one in _time_off(act, answer) if one not in away
        ],
    }
    return [*_listed(broken.items()), *await failed_checks(db, CHECKS)]


def _appointments(answer: JsonAnswer) -> list[dict[str, Any]]:
    """The appointments and holds in an answer."""
    body = answer.json() if answer.body else {}
    if "appointments" in body:
        return body["appointments"]
    return [body] if "appointment_id" in body or "hold_id" in body else []


def _id(shown: dict[str, Any]) -> UUID:
    return UUID(shown.get("appointment_id") or shown["hold_id"])


def _as_event(shown: dict[str, Any]) -> tuple[UUID, int, datetime, UUID]:
    starts_at = datetime.fromisoformat(shown["starts_at"])
    return _id(shown), shown["sequence"], starts_at, UUID(shown["worker_id"])


def _time_off(act: Act, answer: JsonAnswer) -> Iterator[UUID]:
    if act.verb == "time off" and answer.status == 201:
        yield UUID(answer.json()["time_off_id"])


def _listed(found: Iterable[tuple[str, Iterable[object]]]) -> list[str]:
    lines: list[str] = []
    for what, offending in ((what, list(one)) for what, one in found):
        if offending:
            lines += [f"{len(offending)} {what}:", *(f"  {one}" for one in offending[:SHOWN])]
    return lines
