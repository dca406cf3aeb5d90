"""Every statement on appointments and holds."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.model.agendas import (
    Appointment,
    AppointmentId,
    Client,
    Party,
    ServiceId,
    SessionId,
    Status,
    SubjectId,
    SubjectNo,
)
from catraca.domains.scheduling.model.spans import Seconds
from catraca.domains.scheduling.model.zones import TZDATA_VERSION, at, local_time
from catraca.domains.scheduling.store.claims import CLAIMED, NewSession
from catraca.platform.database import Db, Row

COLUMNS = (
    "a.id, a.service_id, a.worker_no, a.client_id, a.client_name, a.client_contact, a.status, a.session_id,"
    " a.capacity, a.starts_at, a.ends_at, a.local_starts_at, a.time_zone, a.tzdata_version, a.expires_at,"
    " a.sequence, a.canceled_by, a.cancel_reason, a.created_at, a.changed_at, a.series_id,"
    " a.waitlist_entry_id, w.id AS worker_id, w.user_id AS worker_user_id"
)
IN_ROOM = "SELECT r.id FROM claims c JOIN subjects r ON r.no = c.subject_no WHERE c.session_id = a.session_id"
READ = (
    f"SELECT {COLUMNS}, ({IN_ROOM}) AS room_id FROM appointments a"  # noqa: S608
    " JOIN subjects w ON w.no = a.worker_no"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSeat:
    """A client's place in a session; held only, for a while, or booked."""

    id: AppointmentId
    client: Client
    starts: Seconds
    time_zone: str
    hold: timedelta | None = None
    most_holds: int = 0

    def values(self) -> tuple[object, ...]:
        """What `_SEATED` takes."""
        return (
            self.id,
            self.client.id,
            self.client.name,
            self.client.contact,
            local_time(self.time_zone, self.starts).replace(tzinfo=None, fold=0),
            self.time_zone,
            TZDATA_VERSION,
            self.hold,
            self.most_holds,
        )


# Puts the client on that seat of `session`, which $1 has told of; a hold only if a number is left for it.
_SEATED = (
    "seated AS ("
    "   INSERT INTO appointments AS a (id, client_id, client_name, client_contact, status, session_id,"
    "     seat_no, service_id, worker_no, starts_at, ends_at, capacity, local_starts_at, time_zone,"
    "     tzdata_version, expires_at, hold_no)"
    "   SELECT $2::uuid, $3::uuid, $4::text, $5::text, CASE WHEN $9::interval IS NULL THEN 'BOOKED'"
    "     ELSE 'HELD' END, session.id, session.seat_no, session.service_id, session.subject_no,"
    "     session.begins_at, session.finishes_at, session.capacity, $6::timestamp, $7::text, $8::text,"
    "     CASE WHEN $9 IS NOT NULL THEN least(clock_timestamp() + $9, session.begins_at) END, hold.no"
    "   FROM session CROSS JOIN ("
    "     SELECT min(n) AS no FROM generate_series(1, $10::int) AS n WHERE NOT EXISTS ("
    "       SELECT FROM appointments WHERE client_id = $3 AND hold_no = n)) AS hold"
    "   WHERE session.seat_no IS NOT NULL AND ($9 IS NULL OR hold.no IS NOT NULL)"
    "   ON CONFLICT DO NOTHING RETURNING *)"
)


async def seat_in_new_session(db: Db, session: NewSession, seat: NewSeat) -> Appointment | None:
    """Take the time and book or hold it for the client; None when that could not be."""
    row = await db.fetchrow(
        f"WITH {CLAIMED}, {_SEATED} SELECT {COLUMNS},"  # noqa: S608
        # Those rows are read where they are made: a statement does not see what it writes.
        "   (SELECT r.id FROM claimed c JOIN subjects r ON r.no = c.subject_no WHERE c.kind = 'room')"
        "     AS room_id"
        " FROM seated a JOIN subjects w ON w.no = a.worker_no",
        session.claims(),
        *seat.values(),
    )
    return None if row is None else appointment_of(row)


async def seat_in_session(db: Db, session_id: SessionId, seat: NewSeat) -> Appointment | None:
    """The same where others are already, on the first free seat; None when there was none."""
    row = await db.fetchrow(
        "WITH session AS ("  # noqa: S608
        "   SELECT c.*, (SELECT min(n) FROM generate_series(1, c.capacity) AS n WHERE NOT EXISTS ("
        "     SELECT FROM appointments WHERE session_id = c.id AND seat_no = n)) AS seat_no"
        # Whoever frees the session this moment is waited for: it is then gone.
        f"   FROM claims c WHERE c.id = $1 FOR NO KEY UPDATE), {_SEATED}"
        f" SELECT {COLUMNS}, ({IN_ROOM}) AS room_id FROM seated a JOIN subjects w ON w.no = a.worker_no",
        session_id,
        *seat.values(),
    )
    return None if row is None else appointment_of(row)


async def move(
    db: Db,
    appointment_id: AppointmentId,
    session_id: SessionId,
    *,
    time_zone: str,
    starts: Seconds,
) -> bool:
    """To the first free seat of another session, which is there. Whether there was one."""
    return await db.fetchval(
        "WITH free AS ("
        "   SELECT c.*, (SELECT min(n) FROM generate_series(1, c.capacity) AS n WHERE NOT EXISTS ("
        "     SELECT FROM appointments WHERE session_id = c.id AND seat_no = n)) AS seat_no"
        # As above: it may be about to go.
        "   FROM claims c WHERE c.id = $2 FOR NO KEY UPDATE),"
        " moved AS (UPDATE appointments a SET session_id = free.id, seat_no = free.seat_no,"
        "   worker_no = free.subject_no, starts_at = free.begins_at, ends_at = free.finishes_at,"
        "   capacity = free.capacity, local_starts_at = $3, time_zone = $4, tzdata_version = $5,"
        "   sequence = a.sequence + 1, changed_at = clock_timestamp(),"
        # Whoever had confirmed has confirmed another time.
        "   status = 'BOOKED'"
        "   FROM free WHERE a.id = $1 AND free.seat_no IS NOT NULL RETURNING 1)"
        " SELECT EXISTS (SELECT FROM moved)",
        appointment_id,
        session_id,
        local_time(time_zone, starts).replace(tzinfo=None, fold=0),
        time_zone,
        TZDATA_VERSION,
    )


async def leave(
    db: Db,
    appointment: Appointment,
    status: Status,
    *,
    canceled_by: Party | None = None,
    reason: str | None = None,
) -> bool:
    """Give the seat back, and with the last of a session its time. Whether it still was one."""
    return await db.fetchval(
        "WITH left_it AS ("
        "   UPDATE appointments SET status = $3, session_id = NULL, seat_no = NULL, expires_at = NULL,"
        "     hold_no = NULL, canceled_by = $4, cancel_reason = $5, sequence = sequence + 1,"
        "     changed_at = clock_timestamp()"
        "   WHERE id = $1 AND session_id = $2 AND status = $6 RETURNING 1),"
        " freed AS (DELETE FROM claims WHERE id = $2 AND EXISTS (SELECT FROM left_it)"
        "   AND NOT EXISTS (SELECT FROM appointments WHERE session_id = $2 AND id <> $1))"
        " SELECT EXISTS (SELECT FROM left_it)",
        appointment.id,
        appointment.session_id,
        status,
        canceled_by,
        reason,
        appointment.status,
    )


async def become(db: Db, appointment_id: AppointmentId, status: Status, *, was: Collection[Status]) -> bool:
    """Another status on the same seat; whether it was one of those."""
    return await db.fetchval(
        "WITH moved AS (UPDATE appointments SET status = $2, sequence = sequence + 1,"
        "     changed_at = clock_timestamp()"
        "   WHERE id = $1 AND status = ANY ($3::text[]) RETURNING 1)"
        " SELECT EXISTS (SELECT FROM moved)",
        appointment_id,
        status,
        list(was),
    )


async def book_held(db: Db, appointment_id: AppointmentId) -> bool:
    """A hold becomes an appointment, if its time is not over."""
    return await db.fetchval(
        "WITH booked AS (UPDATE appointments SET status = 'BOOKED', expires_at = NULL, hold_no = NULL,"
        "     changed_at = clock_timestamp()"
        "   WHERE id = $1 AND status = 'HELD' AND expires_at > clock_timestamp() RETURNING 1)"
        " SELECT EXISTS (SELECT FROM booked)",
        appointment_id,
    )


async def hold_client(db: Db, client_id: UserId) -> None:
    """One at a time makes holds for a client until the transaction ends: they are counted."""
    await db.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('scheduling.holds ' || $1::uuid, 0))", client_id
    )


async def held_by(
    db: Db, client_id: UserId, service_id: ServiceId, worker_id: SubjectId | None, starts: Seconds
) -> Appointment | None:
    """The hold that the client alone has on that time, if it is not over."""
    row = await db.fetchrow(
        f"{READ} WHERE a.client_id = $1 AND a.service_id = $2 AND a.starts_at = $4 AND a.capacity = 1"
        " AND a.status = 'HELD' AND a.expires_at > clock_timestamp() AND ($3::uuid IS NULL OR w.id = $3)",
        client_id,
        service_id,
        worker_id,
        at(starts),
    )
    return None if row is None else appointment_of(row)


async def has_begun(db: Db, appointment_id: AppointmentId) -> bool:
    return await db.fetchval(
        "SELECT starts_at <= clock_timestamp() FROM appointments WHERE id = $1", appointment_id
    )


async def read_appointment(db: Db, appointment_id: UUID) -> Appointment | None:
    row = await db.fetchrow(f"{READ} WHERE a.id = $1", appointment_id)
    return None if row is None else appointment_of(row)


async def read_appointments(db: Db, appointment_ids: Sequence[UUID]) -> list[Appointment]:
    rows = await db.fetch(f"{READ} WHERE a.id = ANY ($1::uuid[]) ORDER BY a.id", list(appointment_ids))
    return [appointment_of(row) for row in rows]


async def lapsed_in(db: Db, session_ids: Collection[SessionId], *, waits: bool) -> list[Appointment]:
    """Holds there whose time is over and that nobody has ended yet. From now on nobody sits down beside them.

    Somebody who just does is waited for, or that session left out.
    """
    rows = await db.fetch(
        f"{READ} JOIN claims session ON session.id = a.session_id"
        " WHERE a.session_id = ANY ($1::uuid[]) AND a.status = 'HELD' AND a.expires_at <= clock_timestamp()"
        f" ORDER BY a.id FOR UPDATE OF session {'' if waits else 'SKIP LOCKED'}",
        list(session_ids),
    )
    return [appointment_of(row) for row in rows]


async def lapsed_of(db: Db, client_id: UserId) -> list[SessionId]:
    """The sessions in which the client has such."""
    rows = await db.fetch(
        "SELECT session_id FROM appointments WHERE client_id = $1 AND status = 'HELD'"
        " AND expires_at <= clock_timestamp()",
        client_id,
    )
    return [row["session_id"] for row in rows]


async def upcoming_of(db: Db, worker_no: SubjectNo, *, limit: int) -> list[Appointment]:
    """What is booked with the worker from now on, in the order of its beginning."""
    rows = await db.fetch(
        f"{READ} WHERE a.worker_no = $1 AND a.starts_at > clock_timestamp()"
        " AND a.status IN ('BOOKED', 'CONFIRMED') ORDER BY a.starts_at, a.id LIMIT $2",
        worker_no,
        limit,
    )
    return [appointment_of(row) for row in rows]


async def find_appointments(
    db: Db,
    *,
    client_id: UserId | None = None,
    worker_id: SubjectId | None = None,
    service_id: ServiceId | None = None,
    starts_from: datetime | None = None,
    starts_before: datetime | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int,
) -> list[Appointment]:
    """In the order of their beginning; holds are none yet."""
    rows = await db.fetch(
        f"{READ} WHERE a.status NOT IN ('HELD', 'EXPIRED') AND ($1::uuid IS NULL OR a.client_id = $1)"  # noqa: S608
        " AND ($2::uuid IS NULL OR a.worker_no = (SELECT no FROM subjects WHERE id = $2))"
        " AND ($3::uuid IS NULL OR a.service_id = $3)"
        " AND ($4::timestamptz IS NULL OR a.starts_at >= $4)"
        " AND ($5::timestamptz IS NULL OR a.starts_at < $5)"
        " AND ($6::timestamptz IS NULL OR (a.starts_at, a.id) > ($6, $7::uuid))"
        " ORDER BY a.starts_at, a.id LIMIT $8",
        client_id,
        worker_id,
        service_id,
        starts_from,
        starts_before,
        after and after[0],
        after and after[1],
        limit,
    )
    return [appointment_of(row) for row in rows]


def appointment_of(row: Row) -> Appointment:
    columns = dict(row)
    client = Client(
        id=columns.pop("client_id"), name=columns.pop("client_name"), contact=columns.pop("client_contact")
    )
    return Appointment(client=client, **columns)


async def count_holds(db: Db, client_id: UserId | None) -> int:
    return await db.fetchval(
        "SELECT count(*) FROM appointments WHERE client_id = $1 AND hold_no > 0", client_id
    )
