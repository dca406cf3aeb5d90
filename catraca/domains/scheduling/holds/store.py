"""Statements on holds."""

from datetime import timedelta

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.model import Appointment, BookingRequest
from catraca.domains.scheduling.appointments.store import READ, SELECTED, WITH_WORKER, appointment_of
from catraca.domains.scheduling.calendar_math.zones import to_datetime
from catraca.domains.scheduling.shared.model import AppointmentId
from catraca.platform.database import Db
from catraca.platform.database.retention import prune_rows


async def find_hold(
    db: Db, client_id: UserId, request: BookingRequest, *, in_groups: bool
) -> Appointment | None:
    """The hold that the client has on the requested time; a seat in a group only with `in_groups`."""
    row = await db.fetchrow(
        f"""
        {READ} WHERE a.client_id = $1 AND a.service_id = $2 AND a.starts_at = $4
          AND (a.capacity = 1 OR $5)
          AND a.status = 'HELD' AND a.expires_at > clock_timestamp() AND ($3::uuid IS NULL OR w.id = $3)
        """,
        client_id,
        request.service_id,
        request.worker_id,
        to_datetime(request.starts),
        in_groups,
    )
    return None if row is None else appointment_of(row)


async def book_hold(db: Db, hold_id: AppointmentId) -> Appointment | None:
    """Book a hold that has not expired; None if it has, or is no hold any more."""
    row = await db.fetchrow(
        f"""
        WITH booked AS (
          UPDATE appointments SET status = 'BOOKED', expires_at = NULL, hold_no = NULL,
            changed_at = clock_timestamp()
          WHERE id = $1 AND status = 'HELD' AND expires_at > clock_timestamp() RETURNING *)
        {SELECTED} FROM booked {WITH_WORKER}
        """,  # noqa: S608
        hold_id,
    )
    return None if row is None else appointment_of(row)


async def delete_expired_holds(db: Db, *, older_than: timedelta, limit: int) -> int:
    """Returns how many. Offers to open waitlist entries stay: such an entry is not offered a time twice."""
    only = (
        "status = 'EXPIRED' AND NOT EXISTS (SELECT FROM waitlist_entries e"
        " WHERE e.id = waitlist_entry_id AND e.status IN ('WAITING', 'OFFERED'))"
    )
    return await prune_rows(
        db, "appointments", aged_by="changed_at", older_than=older_than, only=only, limit=limit
    )
