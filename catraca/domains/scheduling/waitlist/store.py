"""Statements on waitlist entries."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.store import OWN, UPCOMING
from catraca.domains.scheduling.availability.model import Slot
from catraca.domains.scheduling.calendar_math.spans import Seconds, Span
from catraca.domains.scheduling.calendar_math.zones import to_datetime, to_seconds
from catraca.domains.scheduling.shared.model import (
    AppointmentId,
    ClientLimits,
    EntryId,
    ServiceId,
    SubjectId,
)
from catraca.domains.scheduling.waitlist.model import Match, Offer, WaitlistEntry
from catraca.platform.database import Db, Row

# Entries before one are counted up to this number.
MAX_COUNTED: Final = 1000

_READ = f"""
    SELECT e.id, e.service_id, w.id AS worker_id, e.client_id, e.starts_from, e.starts_before, e.status,
      e.created_at, e.changed_at, a.id AS hold_id, o.id AS hold_worker_id, a.starts_at, a.ends_at,
      a.expires_at,
      -- One more than the earlier entries that want some of the same times.
      CASE WHEN e.status = 'WAITING' THEN 1 + (SELECT count(*) FROM (
        SELECT FROM waitlist_entries b WHERE b.service_id = e.service_id AND b.status = 'WAITING'
          AND (b.queued_at, b.id) < (e.queued_at, e.id)
          AND b.starts_from < e.starts_before AND e.starts_from < b.starts_before
          AND (b.worker_no IS NULL OR e.worker_no IS NULL OR b.worker_no = e.worker_no)
        LIMIT {MAX_COUNTED}) AS before) END AS position
    FROM waitlist_entries e LEFT JOIN subjects w ON w.no = e.worker_no
    LEFT JOIN appointments a ON a.id = e.hold_id LEFT JOIN subjects o ON o.no = a.worker_no
"""  # noqa: S608


async def insert_entry(
    db: Db,
    entry_id: EntryId,
    *,
    service_id: ServiceId,
    worker_id: SubjectId | None,
    client_id: UserId,
    starts_from: datetime,
    starts_before: datetime,
    max_entries: int,
) -> bool:
    """False if the client has the most open entries allowed."""
    return await db.fetchval(
        """
        WITH inserted AS (
          INSERT INTO waitlist_entries (id, service_id, worker_no, client_id, starts_from, starts_before)
          SELECT $1, $2, (SELECT no FROM subjects WHERE id = $3), $4, $5, $6
          WHERE (SELECT count(*) FROM waitlist_entries
            WHERE client_id = $4 AND status IN ('WAITING', 'OFFERED')) < $7 RETURNING 1)
        SELECT EXISTS (SELECT FROM inserted)
        """,
        entry_id,
        service_id,
        worker_id,
        client_id,
        starts_from,
        starts_before,
        max_entries,
    )


async def read_entry(db: Db, entry_id: UUID) -> WaitlistEntry | None:
    row = await db.fetchrow(f"{_READ} WHERE e.id = $1", entry_id)
    return None if row is None else _entry_of(row)


async def find_entries(
    db: Db, *, client_id: UserId | None, service_id: ServiceId | None, after: UUID | None, limit: int
) -> list[WaitlistEntry]:
    """Sorted by creation."""
    rows = await db.fetch(
        f"""
        {_READ} WHERE ($1::uuid IS NULL OR e.client_id = $1) AND ($2::uuid IS NULL OR e.service_id = $2)
          AND ($3::uuid IS NULL OR e.id > $3)
        ORDER BY e.id LIMIT $4
        """,
        client_id,
        service_id,
        after,
        limit,
    )
    return [_entry_of(row) for row in rows]


def _entry_of(row: Row) -> WaitlistEntry:
    columns = dict(row)
    hold_id = columns.pop("hold_id")
    hold = {name: columns.pop(name) for name in ("starts_at", "ends_at", "expires_at")}
    worker_id = columns.pop("hold_worker_id")
    offer = None if hold_id is None else Offer(hold_id=hold_id, worker_id=worker_id, **hold)
    return WaitlistEntry(offer=offer, **columns)


async def first_in_line(
    db: Db, service_id: ServiceId, slots: Sequence[Slot], limits: ClientLimits
) -> Match | None:
    """The longest waiting entry that wants one of the slots, with the first such slot.

    Skips clients who have an offer or as many appointments as they may have, slots at which the client has
    an appointment, and slots that the entry was offered before.
    """
    row = await db.fetchrow(
        f"""
        SELECT e.queued_at, e.id AS entry_id, e.client_id, slot.worker_id, slot.starts_at
        FROM waitlist_entries e
        JOIN unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY
          AS slot (worker_id, starts_at, ends_at, place)
          ON slot.starts_at >= e.starts_from AND slot.starts_at < e.starts_before
        JOIN subjects w ON w.id = slot.worker_id AND (e.worker_no IS NULL OR e.worker_no = w.no)
        WHERE e.service_id = $1 AND e.status = 'WAITING'
          AND NOT EXISTS (SELECT FROM waitlist_entries o
            WHERE o.client_id = e.client_id AND o.status = 'OFFERED')
          AND NOT EXISTS (SELECT FROM appointments a
            WHERE a.waitlist_entry_id = e.id AND a.worker_no = w.no AND a.starts_at = slot.starts_at)
          AND NOT EXISTS (SELECT FROM appointments a WHERE a.client_id = e.client_id AND {OWN}
            AND a.starts_at < slot.ends_at AND a.ends_at > slot.starts_at)
          AND (SELECT count(*) FROM appointments a WHERE a.client_id = e.client_id AND {UPCOMING}) < $5
        ORDER BY e.queued_at, e.id, slot.place LIMIT 1
        """,  # noqa: S608
        service_id,
        [slot.worker_id for slot in slots],
        [to_datetime(slot.starts) for slot in slots],
        [to_datetime(slot.ends) for slot in slots],
        limits.upcoming,
    )
    if row is None:
        return None
    columns = dict(row)
    return Match(service_id=service_id, starts=to_seconds(columns.pop("starts_at")), **columns)


async def offered_before(db: Db, entry_id: EntryId) -> set[tuple[Seconds, SubjectId]]:
    """The start and worker of each offer to the entry, open or ended."""
    rows = await db.fetch(
        """
        SELECT a.starts_at, w.id FROM appointments a JOIN subjects w ON w.no = a.worker_no
        WHERE a.waitlist_entry_id = $1
        """,
        entry_id,
    )
    return {(to_seconds(row["starts_at"]), row["id"]) for row in rows}


async def lock_waiting_entry(db: Db, client_id: UserId, entry_id: EntryId) -> bool:
    """Lock the client's open entries; True if this one waits and no other has an offer."""
    rows = await db.fetch(
        """
        SELECT id, status FROM waitlist_entries WHERE client_id = $1 AND status IN ('WAITING', 'OFFERED')
        ORDER BY id FOR NO KEY UPDATE
        """,
        client_id,
    )
    return entry_id in [row["id"] for row in rows] and all(row["status"] == "WAITING" for row in rows)


async def make_offer(
    db: Db, entry_id: EntryId, appointment_id: AppointmentId, *, expires_in: timedelta
) -> None:
    """Turn a booked seat into a hold for the entry. It expires at the start of the time at the latest."""
    await db.execute(
        """
        WITH held AS (
          UPDATE appointments SET status = 'HELD', hold_no = 0, waitlist_entry_id = $1,
            expires_at = least(clock_timestamp() + $3, starts_at)
          WHERE id = $2 AND status = 'BOOKED' RETURNING id)
        UPDATE waitlist_entries SET status = 'OFFERED', hold_id = held.id, changed_at = clock_timestamp()
        FROM held WHERE waitlist_entries.id = $1
        """,
        entry_id,
        appointment_id,
        expires_in,
    )


async def has_offer(db: Db, client_id: UserId) -> bool:
    return await db.fetchval(
        "SELECT EXISTS (SELECT FROM waitlist_entries WHERE client_id = $1 AND status = 'OFFERED')", client_id
    )


async def busy_times(db: Db, client_id: UserId, span: Span) -> list[Span]:
    """The times in `span` at which the client has appointments and holds that it made itself."""
    rows = await db.fetch(
        f"""
        SELECT starts_at, ends_at FROM appointments
        WHERE client_id = $1 AND {OWN} AND starts_at < $3 AND ends_at > $2
        """,  # noqa: S608
        client_id,
        to_datetime(span[0]),
        to_datetime(span[1]),
    )
    return [(to_seconds(row["starts_at"]), to_seconds(row["ends_at"])) for row in rows]


async def expire_entry(db: Db, entry_id: EntryId) -> bool:
    """True if the entry's range is over, and so the entry is expired by this call."""
    return await db.fetchval(
        """
        WITH expired AS (
          UPDATE waitlist_entries SET status = 'EXPIRED', changed_at = clock_timestamp()
          WHERE id = $1 AND status = 'WAITING' AND starts_before <= clock_timestamp() RETURNING 1)
        SELECT EXISTS (SELECT FROM expired)
        """,
        entry_id,
    )


async def cancel_entries(db: Db, entry_ids: Sequence[EntryId]) -> None:
    """Cancel those that wait."""
    await db.execute(
        """
        UPDATE waitlist_entries SET status = 'CANCELED', changed_at = clock_timestamp()
        WHERE id = ANY ($1::uuid[]) AND status = 'WAITING'
        """,
        list(entry_ids),
    )
