"""Statements that move appointments, change their status and list them."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from catraca.domains.scheduling.appointments.model import Appointment, NewSession, Status
from catraca.domains.scheduling.appointments.store import (
    CLAIM,
    FREE_SEAT,
    OWN,
    READ,
    SELECTED,
    WITH_WORKER,
    appointment_of,
    appointments_of,
    session_claims,
)
from catraca.domains.scheduling.calendar_math.spans import Seconds
from catraca.domains.scheduling.calendar_math.zones import TZDATA_VERSION, wall_clock
from catraca.domains.scheduling.shared.model import AppointmentId, SessionId
from catraca.platform.database import Db
from catraca.platform.ids import new_id


async def vacate_seat(db: Db, appointment_id: AppointmentId, session_id: SessionId) -> None:
    """Leave the seat of a locked session, and free the session's time with its last seat.

    Until `move_to_session`, the appointment refers to a session that does not exist: the foreign key is
    checked at commit.
    """
    await db.execute("SET CONSTRAINTS seats_are_in_their_session DEFERRED")
    await db.execute(
        """
        WITH up AS (UPDATE appointments SET session_id = $3, seat_no = 1 WHERE id = $2)
        DELETE FROM claims WHERE id = $1
          AND NOT EXISTS (SELECT FROM appointments WHERE session_id = $1 AND id <> $2)
        """,
        session_id,
        appointment_id,
        new_id(),
    )


async def claim_session(db: Db, session: NewSession) -> bool:
    """False if part of the time is taken: then undo, as the rest may have been claimed."""
    return await db.fetchval(
        f"""
        WITH times AS (SELECT * FROM json_populate_recordset(NULL::claims, $1::json)),
        claimed AS ({CLAIM})
        SELECT count(*) = json_array_length($1::json) FROM claimed
        """,  # noqa: S608
        session_claims([session]),
    )


async def move_to_session(
    db: Db,
    appointment_id: AppointmentId,
    session_id: SessionId,
    *,
    time_zone: str,
    starts: Seconds,
    by_operator: bool,
) -> Appointment | None:
    """Move to the first free seat of another session. Confirmations are reset.

    None if there is no seat, or, not `by_operator`, if the client has another appointment at that time.
    """
    row = await db.fetchrow(
        # The lock waits for a transaction that is deleting the session.
        f"""
        WITH free AS (SELECT c.*, {FREE_SEAT} FROM claims c WHERE c.id = $2 FOR NO KEY UPDATE),
        moved AS (
          UPDATE appointments a SET session_id = free.id, seat_no = free.seat_no,
            worker_no = free.subject_no, starts_at = free.begins_at, ends_at = free.finishes_at,
            capacity = free.capacity, local_starts_at = $3, time_zone = $4, tzdata_version = $5,
            sequence = a.sequence + 1, changed_at = clock_timestamp(), status = 'BOOKED',
            made_by_operator = $6
          FROM free WHERE a.id = $1 AND free.seat_no IS NOT NULL
            AND ($6 OR NOT EXISTS (SELECT FROM appointments b
              WHERE b.client_id = a.client_id AND b.id <> a.id AND {OWN}
                AND b.starts_at < free.finishes_at AND b.ends_at > free.begins_at))
          RETURNING a.*)
        {SELECTED} FROM moved {WITH_WORKER}
        """,  # noqa: S608
        appointment_id,
        session_id,
        wall_clock(time_zone, starts),
        time_zone,
        TZDATA_VERSION,
        by_operator,
    )
    return None if row is None else appointment_of(row)


async def update_status(
    db: Db, appointment_id: AppointmentId, status: Status, *, expected: Collection[Status]
) -> Appointment | None:
    """Set another status; None if the status is not an expected one."""
    row = await db.fetchrow(
        f"""
        WITH changed AS (
          UPDATE appointments SET status = $2, sequence = sequence + 1, changed_at = clock_timestamp()
          WHERE id = $1 AND status = ANY ($3::text[]) RETURNING *)
        {SELECTED} FROM changed {WITH_WORKER}
        """,  # noqa: S608
        appointment_id,
        status,
        list(expected),
    )
    return None if row is None else appointment_of(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppointmentFilter:
    """Conditions; None: no condition."""

    client_id: UUID | None = None
    worker_id: UUID | None = None
    service_id: UUID | None = None
    starts_from: datetime | None = None
    starts_before: datetime | None = None


async def find_appointments(
    db: Db, wanted: AppointmentFilter, *, after: tuple[datetime, UUID] | None, limit: int
) -> list[Appointment]:
    """Sorted by start; without holds."""
    rows = await db.fetch(
        f"""
        {READ} WHERE a.status NOT IN ('HELD', 'EXPIRED') AND ($1::uuid IS NULL OR a.client_id = $1)
          AND ($2::uuid IS NULL OR a.worker_no = (SELECT no FROM subjects WHERE id = $2))
          AND ($3::uuid IS NULL OR a.service_id = $3)
          AND ($4::timestamptz IS NULL OR a.starts_at >= $4)
          AND ($5::timestamptz IS NULL OR a.starts_at < $5)
          AND ($6::timestamptz IS NULL OR (a.starts_at, a.id) > ($6, $7::uuid))
        ORDER BY a.starts_at, a.id LIMIT $8
        """,  # noqa: S608
        wanted.client_id,
        wanted.worker_id,
        wanted.service_id,
        wanted.starts_from,
        wanted.starts_before,
        after and after[0],
        after and after[1],
        limit,
    )
    return appointments_of(rows)
