"""The schema itself prevents overlaps, also for SQL that bypasses the code."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from catraca.domains import scheduling
from catraca.platform.database.invariants import check_invariants
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.domains.scheduling.clinic import Clinic, open_clinic
from tests.servers import Stack
from tests.support.http import served
from tests.support.roles import own_parts


@dataclass
class Scene:
    """A group of two with one booked seat and a room; a hold; time off; and a canceled appointment."""

    clinic: Clinic
    room_id: UUID
    booked: UUID
    held: UUID
    canceled: UUID
    off: UUID

    def filled_in(self, attempt: str) -> str:
        names = ("room_id", "booked", "held", "canceled", "off")
        values = {name: f"'{getattr(self, name)}'" for name in names}
        values |= {"worker": f"(SELECT no FROM subjects WHERE id = '{self.clinic.worker_id}')"}
        values |= {"room": f"(SELECT no FROM subjects WHERE id = '{self.room_id}')"}
        values |= {"session": f"(SELECT session_id FROM appointments WHERE id = '{self.booked}')"}
        return attempt.format(**values, service=f"'{self.clinic.service_id}'", new=f"'{uuid4()}'")

    async def attempt(self, sql: str) -> None:
        """Run SQL in one transaction."""
        async with self.clinic.parts.database.transaction() as db:
            await db.execute(self.filled_in(sql))

    async def broken(self) -> set[str]:
        verdicts = await check_invariants(self.clinic.parts.database, scheduling.INVARIANTS)
        assert "unchecked" not in {verdict.state for verdict in verdicts}
        return {verdict.rule.name for verdict in verdicts if verdict.state == "broken"}


async def a_scene(api: httpx.AsyncClient, parts: Parts) -> Scene:
    clinic = await open_clinic(api, parts, capacity=2)
    room_id = await clinic.room()
    await clinic.rooms_for(clinic.service_id, room_id)
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    moved = await clinic.act(client, booked["appointment_id"], "reschedule", starts_at=clinic.at("09:30"))
    assert moved.status_code == 200, moved.text
    held = await clinic.held(uuid4(), clinic.at("11:00"))
    canceled = await clinic.booked(client, clinic.at("13:00"))
    await clinic.act(client, canceled["appointment_id"], "cancel")
    off = await clinic.call(
        "POST",
        f"/workers/{clinic.worker_id}/time-off",
        {"starts_at": clinic.at("15:00"), "ends_at": clinic.at("16:00")},
    )
    ids = (booked["appointment_id"], held, canceled["appointment_id"], off["time_off_id"])
    return Scene(clinic, room_id, *(UUID(str(one)) for one in ids))


OFF = (
    "INSERT INTO claims (id, subject_no, starts_at, ends_at, kind) SELECT {new}, subject_no,"
    " starts_at + interval '%s', ends_at + interval '%s', 'time_off' FROM claims WHERE id = {session}"
)
SESSION = (
    "INSERT INTO claims (id, subject_no, starts_at, ends_at, kind, service_id, begins_at, finishes_at,"
    " capacity) SELECT {new}, subject_no, starts_at %s, ends_at %s, 'session', service_id, begins_at,"
    " finishes_at, capacity FROM claims WHERE id = {session}"
)
SEAT = (
    "INSERT INTO appointments (id, service_id, worker_no, client_name, status, session_id, seat_no, capacity,"
    " starts_at, ends_at, local_starts_at, time_zone, tzdata_version) SELECT {new}, service_id, worker_no,"
    " 'x', 'BOOKED', session_id, %s, %s, starts_at %s, ends_at, local_starts_at, time_zone, tzdata_version"
    " FROM appointments WHERE id = {booked}"
)
HOLD_TOO = (
    "INSERT INTO appointments (id, service_id, worker_no, client_id, status, session_id, seat_no, capacity,"
    " starts_at, ends_at, local_starts_at, time_zone, tzdata_version, expires_at, hold_no)"
    " SELECT {new}, service_id, worker_no, client_id, status, session_id, 2, capacity, starts_at, ends_at,"
    " local_starts_at, time_zone, tzdata_version, expires_at, hold_no FROM appointments WHERE id = {held}"
)
TWICE = (
    "INSERT INTO appointments (id, service_id, worker_no, client_id, status, session_id, seat_no, capacity,"
    " starts_at, ends_at, local_starts_at, time_zone, tzdata_version)"
    " SELECT {new}, service_id, worker_no, client_id, 'BOOKED', session_id, 2, capacity, starts_at, ends_at,"
    " local_starts_at, time_zone, tzdata_version FROM appointments WHERE id = {booked}"
)
BOOKED = "UPDATE appointments SET %s WHERE id = {booked}"
HELD = "UPDATE appointments SET %s WHERE id = {held}"
ROOM = (
    "INSERT INTO claims (id, subject_no, starts_at, ends_at, kind, session_id) SELECT {new}, {room},"
    " starts_at + interval '1 day', ends_at + interval '1 day', 'room', %s FROM claims WHERE id = {session}"
)
APART, WHOLE, SEATED = "no_two_claims_overlap", "claims_are_finite_and_whole", "what_counts_has_a_seat"
IN_SESSION = "seats_are_in_their_session"
ATTEMPTS = {
    "the same time": (OFF % ("0", "0"), APART),
    "a second of its end": (OFF % ("3599 s", "3599 s"), APART),
    "a second of its beginning": (OFF % ("-3599 s", "-3599 s"), APART),
    "strictly inside": (OFF % ("10 min", "-10 min"), APART),
    "all around it": (OFF % ("-1 h", "1 h"), APART),
    "moved into another": (
        "UPDATE claims SET starts_at = starts_at - interval '4 h' WHERE id = {off}",
        APART,
    ),
    "a room twice": (
        OFF.replace("WHERE id", "WHERE session_id") % ("0", "0"),
        APART,
    ),
    "no time at all": (OFF % ("1 day", "23 h"), WHOLE),
    "less than a second": (OFF % ("1 day 0.5 s", "1 day"), WHOLE),
    "for ever": (
        OFF.replace("ends_at + interval '%s'", "'infinity'") % "1 year",
        WHOLE,
    ),
    "a session that begins before its claim": (
        SESSION % ("+ interval '1 day'", "+ interval '1 day'"),
        "claims_check",
    ),
    "a room without a session": (ROOM % "NULL", "claims_check1"),
    "a second room": (ROOM % "{session}", "one_room_a_session"),
    "a room for an unknown session": (ROOM % "gen_random_uuid()", "claims_session_id_fkey"),
    "a seat of another client": (SEAT % (1, 2, ""), "one_client_a_seat"),
    "a seat beyond the capacity": (SEAT % (3, 2, ""), SEATED),
    "a seat under another capacity": (SEAT % (3, 3, ""), IN_SESSION),
    "a seat at another time than its session": (SEAT % (2, 2, "+ interval '5 min'"), IN_SESSION),
    "another time than its session": (BOOKED % "ends_at = ends_at + interval '1 min'", IN_SESSION),
    "with another worker": (BOOKED % "worker_no = {room}", IN_SESSION),
    "in an unknown session": (BOOKED % "session_id = {new}", IN_SESSION),
    "in a session that is time off": (BOOKED % "session_id = {off}", IN_SESSION),
    "booked without a seat": (BOOKED % "session_id = NULL, seat_no = NULL", SEATED),
    "a seat of no session": (
        "UPDATE appointments SET seat_no = 1 WHERE id = {canceled}",
        SEATED,
    ),
    "canceled on its seat": (BOOKED % "status = 'CANCELED', canceled_by = 'client'", SEATED),
    "canceled without an actor": (
        BOOKED % "status = 'CANCELED', session_id = NULL, seat_no = NULL",
        "appointments_check",
    ),
    "revived without its time": (
        "UPDATE appointments SET status = 'BOOKED', canceled_by = NULL WHERE id = {canceled}",
        SEATED,
    ),
    "its session deleted": ("DELETE FROM claims WHERE id = {session}", IN_SESSION),
    "its session's time changed": (
        "UPDATE claims SET finishes_at = finishes_at - interval '1 min' WHERE id = {session}",
        IN_SESSION,
    ),
    "a hold without an end": (HELD % "expires_at = NULL", "holds_end"),
    "a hold without a number": (HELD % "hold_no = NULL", "holds_end"),
    "an end without a hold": (BOOKED % "expires_at = clock_timestamp()", "holds_end"),
    "a hold without an account": (HELD % "client_id = NULL, client_name = 'x'", "holds_are_somebodys"),
    "the hundred-and-first hold": (HELD % "hold_no = 101", "hold_no_check"),
    "two holds of one number": (
        HOLD_TOO,
        "clients_holds_are_counted",
    ),
    "the same client in two places": (TWICE, "no_client_is_in_two_places"),
    "an account and a name": (BOOKED % "client_name = 'x'", "appointments_check"),
    "a subject with claims deleted": (
        "DELETE FROM subjects WHERE id = {room_id}",
        "_fkey",
    ),
}


async def test_constraints_refuse_double_bookings_in_sql(api: httpx.AsyncClient, parts: Parts) -> None:
    scene = await a_scene(api, parts)
    everything = "SELECT * FROM claims ORDER BY id", "SELECT * FROM appointments ORDER BY id"
    before = [await scene.clinic.sql(query) for query in everything]
    for name, (sql, constraint) in ATTEMPTS.items():
        with pytest.raises(asyncpg.IntegrityConstraintViolationError) as refused:
            await scene.attempt(sql)
        assert constraint in str(refused.value.constraint_name), name
    assert [await scene.clinic.sql(query) for query in everything] == before


async def test_adjacent_claims_do_not_overlap(api: httpx.AsyncClient, parts: Parts) -> None:
    scene = await a_scene(api, parts)
    await scene.attempt(OFF % ("1 h", "30 min"))
    await scene.attempt(OFF % ("-1 h", "-1 h"))
    assert await scene.clinic.overlaps() == []


async def test_a_moment_is_the_same_to_the_constraint_in_every_zone(
    api: httpx.AsyncClient, parts: Parts
) -> None:
    """The constraint depends on the moment only, not on the session's settings."""
    scene = await a_scene(api, parts)
    for zone in ("Pacific/Kiritimati", "America/St_Johns"):
        with pytest.raises(asyncpg.ExclusionViolationError):
            await scene.attempt(f"SET LOCAL timezone = '{zone}'; " + OFF % ("59 min", "59 min"))


@pytest.fixture
async def broken(stack: Stack, settings: Settings) -> AsyncIterator[Scene]:
    """A scene in a private database that the test breaks."""
    async with own_parts(stack, settings) as parts, served(parts) as here, here.client() as client:
        yield await a_scene(client, parts)


PUBLISH = (
    "INSERT INTO outbox_sent (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at)"
    " SELECT {{new}}, {about}, 99, exchange, '{key}', headers, body, created_at FROM outbox"
    " WHERE aggregate_id = {{booked}} AND routing_key = 'appointment.rescheduled'"
)
FALSE_EVENTS = {
    "of a hold": PUBLISH.format(about="{held}", key="appointment.booked"),
    "of an unknown appointment": PUBLISH.format(about="{new}", key="appointment.booked"),
    "twice": PUBLISH.format(about="{booked}", key="appointment.rescheduled"),
    "of a change that did not happen": PUBLISH.format(about="{canceled}", key="appointment.no_show"),
}


async def test_an_event_without_its_change_is_detected(broken: Scene) -> None:
    for name, sql in FALSE_EVENTS.items():
        await broken.attempt(sql)
        assert await broken.broken() == {"every appointment event has its change"}, name
        await broken.attempt("DELETE FROM outbox_sent WHERE seq = 99")
    await broken.attempt(
        "UPDATE outbox SET routing_key = 'appointment.no_show'"
        " WHERE aggregate_id = {canceled} AND routing_key = 'appointment.canceled'"
    )
    both = {"every appointment event has its change", "every change of an appointment has its event"}
    assert await broken.broken() == both


async def test_a_reminder_event_needs_no_change(broken: Scene) -> None:
    reminder = PUBLISH.format(about="{booked}", key="appointment.reminder_due")
    await broken.attempt(reminder)
    assert await broken.broken() == set()


MISSING_EVENTS = {
    "the last": "DELETE FROM outbox WHERE aggregate_id = {canceled} AND routing_key LIKE '%%canceled'",
    "the first": "DELETE FROM outbox WHERE aggregate_id = {booked} AND routing_key LIKE '%%booked'",
    "a change": "UPDATE appointments SET status = 'CONFIRMED', sequence = 2 WHERE id = {booked}",
    "a status without a change": "UPDATE appointments SET status = 'CONFIRMED' WHERE id = {booked}",
}


@pytest.mark.parametrize("name", list(MISSING_EVENTS))
async def test_a_change_without_its_event_is_detected(broken: Scene, name: str) -> None:
    await broken.attempt(MISSING_EVENTS[name].replace("%%", "%"))
    assert "every change of an appointment has its event" in await broken.broken()


def dropped(table: str, constraint: str) -> str:
    return f"ALTER TABLE {table} DROP CONSTRAINT {constraint}"


# How each rule is broken, in an order in which each breach breaks one more.
BREACHES = {
    "the database refuses rules out of range": dropped("worker_rules", "worker_rules_times_in_range"),
    "the hours of every worker can be read": (
        "UPDATE worker_rules SET valid_to = 'infinity' WHERE subject_no = {worker}"
    ),
    "the database refuses overrides out of range": dropped(
        "worker_overrides", "worker_overrides_times_in_range"
    ),
    "every change of an appointment has its event": "DELETE FROM outbox WHERE aggregate_id = {canceled}",
    "every appointment event has its change": FALSE_EVENTS["twice"],
    "every hold has its timer": "DELETE FROM timers WHERE subject_id = {held}",
    "every hold expires": dropped("appointments", "holds_end"),
    "every hold has an account": dropped("appointments", "holds_are_somebodys"),
    "one room per session": "DROP INDEX one_room_a_session",
    "rooms are claimed with their session": ROOM % "{session}",
    "claims fit their subject": (
        "DELETE FROM service_subjects WHERE subject_no = {worker};"
        " UPDATE subjects SET kind = 'room', time_zone = NULL WHERE no = {worker}"
    ),
    "the database refuses overlapping claims": dropped("claims", APART),
    "no overlapping claims": OFF % ("10 min", "-10 min"),
    "every session has a client": SESSION % ("", ""),
    "the database refuses clients in two places": dropped("appointments", "no_client_is_in_two_places"),
    "no client is in two places": TWICE,
    "one client per seat": dropped("appointments", "one_client_a_seat"),
    "every active appointment has a seat": dropped("appointments", SEATED),
    "every seat is in its session": dropped("appointments", IN_SESSION),
}


async def test_the_rules_hold_and_each_breach_is_seen(broken: Scene) -> None:
    assert await broken.broken() == set()
    seen: set[str] = set()
    for name, breach in BREACHES.items():
        await broken.attempt(breach)
        assert await broken.broken() - seen == {name}
        seen.add(name)
    others = {rule.name for rule in scheduling.INVARIANTS} - seen
    assert all("offer" in name for name in others), "the rules of waitlists have their own tests"
