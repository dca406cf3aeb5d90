"""Locks for several bookings at once."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.model import BookingRequest
from catraca.domains.scheduling.appointments.store import OWN, UPCOMING
from catraca.domains.scheduling.booking_batches.model import Undecided
from catraca.domains.scheduling.calendar_math.zones import to_datetime
from catraca.domains.scheduling.shared.model import ClientLimits, SubjectId
from catraca.platform.database import Db


class Lock(NamedTuple):
    """What was locked for a booking."""

    state: Literal["ready"] | Undecided
    # None: all workers of the service.
    worker_ids: Sequence[SubjectId] | None


async def lock_without_waiting(
    db: Db,
    wanted: Sequence[tuple[BookingRequest, UserId]],
    limits: ClientLimits,
    *,
    candidates: int | None,
) -> list[Lock]:
    """Lock agendas and clients as `lock_for_booking` does, but none that another transaction has locked.

    Of a booking with any worker, lock this many candidates: workers chosen at random who are not locked and
    have no claim at that time. None: lock all workers of the service. Bookings for the same time share their
    candidates, and each adds one.

    Special: the client has an expired hold, too many appointments, or another one at that time.
    """
    requests = Counter(request for request, _ in wanted)
    places = {request: place for place, request in enumerate(requests, start=1)}
    rows = await db.fetch(
        f"""
        WITH requests AS MATERIALIZED (
          SELECT r.*, r.starts_at + v.duration_minutes * interval '1 minute' AS ends_at, v.capacity,
            r.starts_at - v.buffer_before_minutes * interval '1 minute' AS claimed_from,
            r.starts_at + (v.duration_minutes + v.buffer_after_minutes) * interval '1 minute' AS claimed_to
          FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::int[])
            WITH ORDINALITY AS r (service_id, worker_id, starts_at, candidates, place)
          LEFT JOIN services v ON v.id = r.service_id),
        candidates AS MATERIALIZED (
          SELECT r.place, c.no, c.id
          FROM requests r CROSS JOIN LATERAL (
            -- Worker by worker, until there are enough. Without OFFSET the conditions would be joins, and
            -- checked for all workers.
            SELECT locked.no, locked.id
            FROM (
              SELECT no FROM (
                SELECT subject_no AS no FROM service_subjects
                WHERE service_id = r.service_id AND kind = 'worker'
                ORDER BY random()) AS worker
              WHERE r.capacity > 1 OR NOT EXISTS (
                SELECT FROM claims
                WHERE claim_box(subject_no, starts_at, ends_at)
                  && claim_box(worker.no, r.claimed_from, r.claimed_to)
                OFFSET 0)
              OFFSET 0) AS free
            CROSS JOIN LATERAL (
              SELECT no, id FROM subjects WHERE no = free.no AND NOT retired
              FOR NO KEY UPDATE SKIP LOCKED) AS locked
            LIMIT r.candidates) AS c
          WHERE r.candidates IS NOT NULL),
        agendas AS MATERIALIZED (
          SELECT r.place, a.no
          FROM requests r CROSS JOIN LATERAL (
            SELECT subject_no AS no FROM service_subjects
            WHERE service_id = r.service_id AND kind = 'room'
            UNION ALL
            SELECT no FROM subjects WHERE id = r.worker_id
            UNION ALL
            SELECT subject_no FROM service_subjects
            WHERE service_id = r.service_id AND kind = 'worker'
              AND r.worker_id IS NULL AND r.candidates IS NULL) AS a),
        locked AS MATERIALIZED (
          SELECT no FROM subjects WHERE no = ANY (ARRAY(SELECT no FROM agendas))
          ORDER BY no FOR NO KEY UPDATE SKIP LOCKED),
        found AS MATERIALIZED (
          SELECT r.place,
            ARRAY(SELECT id FROM candidates c WHERE c.place = r.place) AS candidate_ids,
            EXISTS (SELECT FROM agendas a WHERE a.place = r.place AND a.no NOT IN (SELECT no FROM locked))
              AS is_locked
          FROM requests r)
        SELECT found.candidate_ids, CASE
          WHEN found.is_locked
            OR NOT pg_try_advisory_xact_lock(hashtextextended('scheduling.client ' || w.client_id, 0))
            THEN 'locked'
          WHEN EXISTS (
            SELECT FROM appointments WHERE client_id = w.client_id
              AND hold_no IS NOT NULL AND expires_at <= clock_timestamp())
            OR (SELECT count(*) FROM appointments WHERE client_id = w.client_id AND {UPCOMING}) >= $7
            OR EXISTS (
              SELECT FROM appointments a WHERE {OWN} AND a.client_id = w.client_id
                AND client_box(a.client_id, a.starts_at, a.ends_at)
                  && client_box(w.client_id, r.starts_at, r.ends_at))
            THEN 'special'
          ELSE 'ready' END AS state
        FROM unnest($5::uuid[], $6::int[]) WITH ORDINALITY AS w (client_id, request, place)
        JOIN requests r ON r.place = w.request
        JOIN found ON found.place = w.request
        ORDER BY w.place
        """,  # noqa: S608
        [request.service_id for request in requests],
        [request.worker_id for request in requests],
        [to_datetime(request.starts) for request in requests],
        [
            None if candidates is None or request.worker_id is not None else candidates + bookings - 1
            for request, bookings in requests.items()
        ],
        [client_id for _, client_id in wanted],
        [places[request] for request, _ in wanted],
        limits.upcoming,
    )
    return [
        Lock(row["state"], _worker_ids(request, row["candidate_ids"], candidates))
        for (request, _), row in zip(wanted, rows, strict=True)
    ]


def _worker_ids(
    request: BookingRequest, candidate_ids: Sequence[SubjectId], candidates: int | None
) -> Sequence[SubjectId] | None:
    if request.worker_id is not None:
        return (request.worker_id,)
    return None if candidates is None else candidate_ids
