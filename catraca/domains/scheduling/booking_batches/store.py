"""Locks for several bookings at once."""

from collections.abc import Sequence
from typing import Literal

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.model import BookingRequest
from catraca.domains.scheduling.appointments.store import OWN, UPCOMING
from catraca.domains.scheduling.booking_batches.model import Undecided
from catraca.domains.scheduling.calendar_math.zones import to_datetime
from catraca.domains.scheduling.shared.model import ClientLimits
from catraca.platform.database import Db


async def lock_without_waiting(
    db: Db, wanted: Sequence[tuple[BookingRequest, UserId]], limits: ClientLimits
) -> list[Literal["ready"] | Undecided]:
    """Lock agendas and clients as `lock_for_booking` does, but none that another transaction has locked.

    Special: the client has an expired hold, too many appointments, or another one at that time.
    """
    rows = await db.fetch(
        f"""
        WITH wanted AS MATERIALIZED (
          SELECT w.*, w.starts_at + v.duration_minutes * interval '1 minute' AS ends_at
          FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[])
            WITH ORDINALITY AS w (service_id, worker_id, client_id, starts_at, place)
          LEFT JOIN services v ON v.id = w.service_id),
        agendas AS MATERIALIZED (
          SELECT w.service_id, w.worker_id, s.no
          FROM (SELECT DISTINCT service_id, worker_id FROM wanted) AS w
          JOIN service_subjects ss ON ss.service_id = w.service_id JOIN subjects s ON s.no = ss.subject_no
          WHERE s.kind = 'room' OR w.worker_id IS NULL OR s.id = w.worker_id),
        locked AS MATERIALIZED (
          SELECT no FROM subjects WHERE no = ANY (ARRAY(SELECT no FROM agendas))
          ORDER BY no FOR NO KEY UPDATE SKIP LOCKED),
        unlocked AS MATERIALIZED (SELECT * FROM agendas WHERE no NOT IN (SELECT no FROM locked))
        SELECT CASE
          WHEN EXISTS (
            SELECT FROM unlocked u
            WHERE u.service_id = w.service_id AND u.worker_id IS NOT DISTINCT FROM w.worker_id)
            OR NOT pg_try_advisory_xact_lock(hashtextextended('scheduling.client ' || w.client_id, 0))
            THEN 'locked'
          WHEN EXISTS (
            SELECT FROM appointments WHERE client_id = w.client_id
              AND hold_no IS NOT NULL AND expires_at <= clock_timestamp())
            OR (SELECT count(*) FROM appointments WHERE client_id = w.client_id AND {UPCOMING}) >= $5
            OR EXISTS (
              SELECT FROM appointments a WHERE {OWN} AND a.client_id = w.client_id
                AND client_box(a.client_id, a.starts_at, a.ends_at)
                  && client_box(w.client_id, w.starts_at, w.ends_at))
            THEN 'special'
          ELSE 'ready' END AS state
        FROM wanted w ORDER BY w.place
        """,  # noqa: S608
        [request.service_id for request, _ in wanted],
        [request.worker_id for request, _ in wanted],
        [client_id for _, client_id in wanted],
        [to_datetime(request.starts) for request, _ in wanted],
        limits.upcoming,
    )
    return [row["state"] for row in rows]
