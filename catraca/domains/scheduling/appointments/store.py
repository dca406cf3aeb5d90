"""Statements on appointments, seats and claims.

The constraint `no_two_claims_overlap` decides which booking gets a time. Callers lock the subjects' rows
first, so that bookings do not wait for each other at the constraint, where they could deadlock.
"""

from collections.abc import AsyncGenerator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

import msgspec

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.model import (
    Appointment,
    Client,
    NewSeat,
    NewSession,
    Party,
    Status,
)
from catraca.domains.scheduling.calendar_math.spans import Span
from catraca.domains.scheduling.calendar_math.zones import TZDATA_VERSION, to_datetime, wall_clock
from catraca.domains.scheduling.shared.model import AppointmentId, ServiceId, SessionId, SubjectId, SubjectNo
from catraca.domains.scheduling.shared.store import SUBJECTS_OF_SERVICE
from catraca.platform.database import Db, Row
from catraca.platform.errors import Refusal
from catraca.platform.ids import new_id

COLUMNS = """
    a.id, a.service_id, a.worker_no, a.client_id, a.client_name, a.client_contact, a.status, a.session_id,
    a.capacity, a.starts_at, a.ends_at, a.local_starts_at, a.time_zone, a.tzdata_version, a.expires_at,
    a.sequence, a.canceled_by, a.cancel_reason, a.created_at, a.changed_at, a.series_id,
    a.waitlist_entry_id, a.starts_at <= clock_timestamp() AS has_begun,
    w.id AS worker_id, w.user_id AS worker_user_id
"""
_ROOM = "SELECT r.id FROM claims c JOIN subjects r ON r.no = c.subject_no WHERE c.session_id = a.session_id"
# Of rows `a` of appointments, from a table or from a statement that returns them.
SELECTED = f"SELECT {COLUMNS}, ({_ROOM}) AS room_id"
WITH_WORKER = "a JOIN subjects w ON w.no = a.worker_no"
READ = f"{SELECTED} FROM appointments {WITH_WORKER}"


async def read_appointment(db: Db, appointment_id: UUID) -> Appointment | None:
    row = await db.fetchrow(f"{READ} WHERE a.id = $1", appointment_id)
    return None if row is None else appointment_of(row)


async def read_appointments(db: Db, appointment_ids: Collection[UUID]) -> list[Appointment]:
    return appointments_of(await db.fetch(f"{READ} WHERE a.id = ANY ($1::uuid[])", list(appointment_ids)))


async def read_worker_id(db: Db, appointment_id: UUID) -> SubjectId | None:
    return await db.fetchval(
        "SELECT w.id FROM appointments a JOIN subjects w ON w.no = a.worker_no WHERE a.id = $1",
        appointment_id,
    )


def appointment_of(row: Row) -> Appointment:
    columns = dict(row)
    client = Client(
        id=columns.pop("client_id"), name=columns.pop("client_name"), contact=columns.pop("client_contact")
    )
    return Appointment(client=client, **columns)


def appointments_of(rows: Sequence[Row]) -> list[Appointment]:
    return [appointment_of(row) for row in rows]


# Locks


async def lock_agendas_of(
    db: Db, appointment_ids: Collection[UUID], new_worker_id: SubjectId | None
) -> set[SubjectNo]:
    """Lock the agendas that these appointments use or may use: workers', the new worker's, rooms'."""
    rows = await db.fetch(
        """
        SELECT no FROM subjects WHERE no = ANY (ARRAY(
          SELECT worker_no FROM appointments WHERE id = ANY ($1::uuid[])
          UNION ALL SELECT subject_no FROM appointments a
            JOIN service_subjects ss ON ss.service_id = a.service_id AND ss.kind = 'room'
            WHERE a.id = ANY ($1::uuid[])
          UNION ALL SELECT no FROM subjects WHERE id = $2))
        ORDER BY no FOR NO KEY UPDATE
        """,
        list(appointment_ids),
        new_worker_id,
    )
    return {row["no"] for row in rows}


async def lock_session(db: Db, session_id: SessionId) -> None:
    """No seat of it is taken or released until the transaction ends. Lock its worker's row first."""
    await db.execute("SELECT FROM claims WHERE id = $1 FOR UPDATE", session_id)


async def set_savepoint(db: Db) -> None:
    await db.execute("SAVEPOINT before_change")


async def undo_to_savepoint(db: Db) -> None:
    """Undo the changes since the savepoint and release their locks."""
    await db.execute("ROLLBACK TO SAVEPOINT before_change")


@asynccontextmanager
async def undone_if_refused(db: Db) -> AsyncGenerator[None]:
    """If the block raises a refusal, its changes are undone; the transaction can go on."""
    await set_savepoint(db)
    try:
        yield
    except Refusal:
        await undo_to_savepoint(db)
        raise
    await db.execute("RELEASE SAVEPOINT before_change")


async def lock_for_booking(
    db: Db, service_ids: Collection[ServiceId], worker_id: SubjectId | None, client_id: UserId | None
) -> list[SessionId]:
    """Lock the agendas that a booking may use, as `lock_for_services` does, and then the client.

    One transaction at a time makes or moves appointments of a client: they are counted. Returns the sessions
    in which the client has expired holds that are not closed yet.
    """
    return await db.fetchval(
        # The count makes the agendas' locks come first. Without a client, no client is locked.
        f"""
        WITH agendas AS MATERIALIZED (
          SELECT FROM subjects WHERE no = ANY (ARRAY({SUBJECTS_OF_SERVICE})) ORDER BY no FOR NO KEY UPDATE),
        client AS MATERIALIZED (
          SELECT pg_advisory_xact_lock(hashtextextended('scheduling.client ' || $3::uuid, 0))
          FROM (SELECT count(*) FROM agendas) AS locked)
        SELECT ARRAY(
          SELECT session_id FROM appointments
          WHERE client_id = $3 AND status = 'HELD' AND expires_at <= clock_timestamp()) FROM client
        """,  # noqa: S608
        list(service_ids),
        worker_id,
        client_id,
    )


# Seats

# Appointments that a client has, or will have, unless an operator made them.
OWN = "status IN ('HELD', 'BOOKED', 'CONFIRMED') AND NOT made_by_operator"
# Those that count for the limits of a client. Not in the words of `OWN`: if PostgreSQL plans while the table
# is small, it would read the whole index of `no_client_is_in_two_places`, and keep that plan.
UPCOMING = """
    status IN ('HELD', 'BOOKED', 'CONFIRMED') AND made_by_operator IS NOT TRUE
    AND starts_at > clock_timestamp() AND coalesce(expires_at, 'infinity') > clock_timestamp()
"""

# Inserts `times`, rows of `claims`; those that overlap another row are left out. An order and DO NOTHING, so
# that two such statements cannot deadlock.
CLAIM = """
    INSERT INTO claims SELECT * FROM times ORDER BY subject_no
    ON CONFLICT ON CONSTRAINT no_two_claims_overlap DO NOTHING RETURNING *
"""
# The first free seat of a session `c`; NULL if there is none.
FREE_SEAT = """
    (SELECT min(n) FROM generate_series(1, c.capacity) AS n
     WHERE NOT EXISTS (SELECT FROM appointments WHERE session_id = c.id AND seat_no = n)) AS seat_no
"""
# Inserts clients on the seats ($2, as JSON) of `session`; a hold only if the client has a number left for it,
# and within the client's limits if no operator makes it. `no_client_is_in_two_places` is one conflict.
_SEAT = f"""
    allowed AS MATERIALIZED (
      SELECT w.*, hold.no AS hold_no
      FROM json_to_recordset($2::json) AS w (
        id uuid, session_id uuid, client_id uuid, client_name text, client_contact text,
        local_starts_at timestamp, time_zone text, tzdata_version text, hold_for interval, max_holds int,
        made_by_operator boolean, series_id uuid, max_upcoming int, max_in_series int)
      CROSS JOIN LATERAL (
        SELECT min(n) AS no FROM generate_series(1, w.max_holds) AS n
        WHERE NOT EXISTS (SELECT FROM appointments WHERE client_id = w.client_id AND hold_no = n)) AS hold
      WHERE (w.hold_for IS NULL OR hold.no IS NOT NULL)
        AND (w.made_by_operator OR (
          SELECT count(*) < w.max_upcoming
            AND (w.series_id IS NULL OR count(*) FILTER (WHERE series_id IS NOT NULL) < w.max_in_series)
          FROM appointments WHERE client_id = w.client_id AND {UPCOMING}))),
    seated AS (
      INSERT INTO appointments AS a (id, client_id, client_name, client_contact, status, session_id,
        seat_no, service_id, worker_no, starts_at, ends_at, capacity, local_starts_at, time_zone,
        tzdata_version, expires_at, hold_no, made_by_operator, series_id)
      SELECT w.id, w.client_id, w.client_name, w.client_contact,
        CASE WHEN w.hold_for IS NULL THEN 'BOOKED' ELSE 'HELD' END,
        session.id, session.seat_no, session.service_id, session.subject_no, session.begins_at,
        session.finishes_at, session.capacity, w.local_starts_at, w.time_zone, w.tzdata_version,
        CASE WHEN w.hold_for IS NOT NULL THEN least(clock_timestamp() + w.hold_for, session.begins_at) END,
        w.hold_no, w.made_by_operator, w.series_id
      FROM session JOIN allowed w ON w.session_id = session.id
      WHERE session.seat_no IS NOT NULL
      ON CONFLICT DO NOTHING RETURNING *)
"""  # noqa: S608


async def insert_seats_and_sessions(
    db: Db, wanted: Sequence[tuple[NewSession, NewSeat]]
) -> list[Appointment]:
    """Claim the time of sessions and insert a client's seat in each; all, or none.

    If none, undo: a time is taken or a limit is reached, but other times may have been claimed.
    """
    rows = await db.fetch(
        f"""
        WITH times AS (SELECT * FROM json_populate_recordset(NULL::claims, $1::json)),
        claimed AS ({CLAIM}),
        session AS (SELECT *, 1 AS seat_no FROM claimed WHERE kind = 'session'),
        {_SEAT}
        SELECT {COLUMNS},
          -- Not by `claims`: a statement does not see the rows that it inserts.
          (SELECT r.id FROM claimed c JOIN subjects r ON r.no = c.subject_no
           WHERE c.session_id = a.session_id) AS room_id
        FROM seated {WITH_WORKER}
        WHERE (SELECT count(*) FROM claimed) = json_array_length($1::json)
          AND (SELECT count(*) FROM seated) = json_array_length($2::json)
        """,  # noqa: S608
        session_claims(session for session, _ in wanted),
        _seats((session.id, seat) for session, seat in wanted),
    )
    return appointments_of(rows)


async def insert_seat(db: Db, session_id: SessionId, seat: NewSeat) -> Appointment | None:
    """Insert the client on the first free seat of a session; None if there is none, or a limit is reached."""
    row = await db.fetchrow(
        # The lock waits for a transaction that is deleting the session.
        f"""
        WITH session AS (
          SELECT c.*, {FREE_SEAT} FROM claims c WHERE c.id = $1 FOR NO KEY UPDATE), {_SEAT}
        {SELECTED} FROM seated {WITH_WORKER}
        """,  # noqa: S608
        session_id,
        _seats([(session_id, seat)]),
    )
    return None if row is None else appointment_of(row)


def session_claims(sessions: Iterable[NewSession]) -> str:
    """The rows of `claims` that sessions need, as JSON."""
    rows: list[dict[str, object]] = []
    for session in sessions:
        span = {"starts_at": to_datetime(session.claim[0]), "ends_at": to_datetime(session.claim[1])}
        rows.append(
            {
                "id": session.id,
                "subject_no": session.worker_no,
                "kind": "session",
                "service_id": session.service_id,
                "begins_at": to_datetime(session.begins),
                "finishes_at": to_datetime(session.finishes),
                "capacity": session.capacity,
                **span,
            }
        )
        if session.room_no is not None:
            rows.append(
                {
                    "id": new_id(),
                    "subject_no": session.room_no,
                    "kind": "room",
                    "session_id": session.id,
                    **span,
                }
            )
    return msgspec.json.encode(rows).decode()


def _seats(seats: Iterable[tuple[SessionId, NewSeat]]) -> str:
    """The seats as JSON, for `_SEAT`."""
    rows = [
        {
            "id": seat.id,
            "session_id": session_id,
            "client_id": seat.client.id,
            "client_name": seat.client.name,
            "client_contact": seat.client.contact,
            "local_starts_at": wall_clock(seat.time_zone, seat.starts),
            "time_zone": seat.time_zone,
            "tzdata_version": TZDATA_VERSION,
            "hold_for": seat.hold and seat.hold.ttl,
            "max_holds": seat.hold.max_holds if seat.hold else 0,
            "made_by_operator": seat.limits is None,
            "series_id": seat.series_id,
            "max_upcoming": seat.limits and seat.limits.upcoming,
            "max_in_series": seat.limits and seat.limits.in_series,
        }
        for session_id, seat in seats
    ]
    return msgspec.json.encode(rows).decode()


async def release_seat(
    db: Db,
    found: Appointment,
    status: Status,
    *,
    canceled_by: Party | None = None,
    reason: str | None = None,
) -> Appointment | None:
    """Release the seat, and the session's time with its last seat; None if the appointment has changed."""
    row = await db.fetchrow(
        f"""
        WITH released AS (
          UPDATE appointments SET status = $3, session_id = NULL, seat_no = NULL, expires_at = NULL,
            hold_no = NULL, canceled_by = $4, cancel_reason = $5, sequence = sequence + 1,
            changed_at = clock_timestamp()
          WHERE id = $1 AND session_id = $2 AND status = $6 RETURNING *),
        freed AS (
          DELETE FROM claims WHERE id = $2 AND EXISTS (SELECT FROM released)
            AND NOT EXISTS (SELECT FROM appointments WHERE session_id = $2 AND id <> $1))
        SELECT {COLUMNS}, NULL::uuid AS room_id FROM released {WITH_WORKER}
        """,  # noqa: S608
        found.id,
        found.session_id,
        status,
        canceled_by,
        reason,
        found.status,
    )
    return None if row is None else appointment_of(row)


# Expired holds


async def lock_expired_holds(
    db: Db, session_ids: Collection[SessionId], *, skip_locked: bool
) -> list[Appointment]:
    """Lock the sessions and return their expired holds that are not closed yet."""
    rows = await db.fetch(
        f"""
        {READ} JOIN claims session ON session.id = a.session_id
        WHERE a.session_id = ANY ($1::uuid[]) AND a.status = 'HELD' AND a.expires_at <= clock_timestamp()
        ORDER BY a.id FOR UPDATE OF session {"SKIP LOCKED" if skip_locked else ""}
        """,
        list(session_ids),
    )
    return appointments_of(rows)


async def count_holds(db: Db, client_id: UserId | None) -> int:
    """Without offers of the waitlist, which do not count."""
    return await db.fetchval(
        "SELECT count(*) FROM appointments WHERE client_id = $1 AND hold_no > 0", client_id
    )


async def count_upcoming(db: Db, client_id: UserId) -> tuple[int, int]:
    """The appointments and holds that count for the client's limits, and how many of them are in series."""
    row = await db.fetchrow(
        f"SELECT count(*) AS all, count(series_id) AS in_series FROM appointments"  # noqa: S608
        f" WHERE client_id = $1 AND {UPCOMING}",
        client_id,
    )
    assert row is not None
    return row["all"], row["in_series"]


async def find_in_the_way(
    db: Db, client_id: UserId, span: Span, *, moved: AppointmentId | None = None
) -> Appointment | None:
    """The client's own appointment or hold, other than `moved`, that overlaps the time."""
    row = await db.fetchrow(
        f"""
        {READ} WHERE a.client_id = $1 AND a.id IS DISTINCT FROM $4 AND {OWN}
          AND a.starts_at < $3 AND a.ends_at > $2
        ORDER BY a.starts_at, a.id LIMIT 1
        """,
        client_id,
        to_datetime(span[0]),
        to_datetime(span[1]),
        moved,
    )
    return None if row is None else appointment_of(row)
