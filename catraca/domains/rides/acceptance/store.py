"""Attempts to accept: decided and recorded in one statement, read, and deleted."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from catraca.domains.rides.acceptance.model import (
    AcceptedRide,
    Attempt,
    AttemptResult,
    LostOffer,
    RecordedAttempt,
    TripDetails,
    Win,
)
from catraca.domains.rides.model import RideId
from catraca.platform.database import Db, Row

_DECIDE = """
WITH asked AS (
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[],
    $7::text[], $8::text[]) WITH ORDINALITY
    AS a (id, ride_id, driver_id, actor_id, given_key, request_id, user_agent, ip_address, place)),
-- One moment for all outcomes and everything written.
moment AS MATERIALIZED (SELECT clock_timestamp() AS at),
known AS (
  SELECT a.*, r.status, r.version, r.passenger_id, r.accepted_driver_id, r.pickup_lat, r.pickup_lon,
    r.dropoff_lat, r.dropoff_lon, o.id AS offer_id, o.response, o.expires_at,
    -- Without a client's key, all attempts at one offer share one key.
    coalesce(a.given_key, 'offer:' || coalesce(o.id, a.ride_id)) AS key,
    -- Failures that are recorded: a driver with many keys must not fill the table. The schema has these
    -- limits too.
    CASE WHEN o.id IS NULL THEN 1 ELSE 20 END AS places
  FROM asked a JOIN rides r ON r.id = a.ride_id
  LEFT JOIN LATERAL (SELECT id, response, expires_at FROM ride_offers
    WHERE ride_id = a.ride_id AND driver_id = a.driver_id ORDER BY attempt DESC LIMIT 1) AS o ON true),
decided AS (
  SELECT k.*, e.status AS earlier, e.failure_reason, e.ride_status, e.completed_at, CASE
    WHEN e.status IS NOT NULL THEN 'repeated'
    WHEN EXISTS (SELECT FROM ride_accept_attempts x WHERE x.driver_id = k.driver_id
      AND x.idempotency_key = k.key AND x.ride_id <> k.ride_id
      -- A key that was refused there as reused does not belong to that ride.
      AND x.failure_reason IS DISTINCT FROM 'idempotency_key_reused') THEN 'idempotency_key_reused'
    WHEN k.offer_id IS NULL THEN 'offer_not_received'
    WHEN k.response = 'EXPIRED' OR (k.response IS NULL AND k.expires_at <= moment.at)
      THEN 'offer_expired'
    WHEN k.accepted_driver_id = k.driver_id THEN 'accepted_by_you'
    WHEN k.status IN ('ACCEPTED', 'ARRIVING', 'STARTED', 'COMPLETED', 'PAID', 'PAYMENT_EXPIRED')
      THEN 'ride_already_accepted'
    WHEN k.status = 'OFFERED' AND k.response IS NULL THEN 'open'
    ELSE 'ride_cannot_be_accepted' END AS outcome
  FROM known k CROSS JOIN moment
  LEFT JOIN LATERAL (SELECT status, failure_reason, ride_status, completed_at
    FROM ride_accept_attempts WHERE driver_id = k.driver_id AND idempotency_key = k.key
    AND ride_id = k.ride_id AND offer_id IS NOT DISTINCT FROM k.offer_id) AS e ON true),
-- The first open attempt at a ride wins it. The guards of the UPDATE check the status once more.
firsts AS (
  SELECT DISTINCT ON (ride_id) * FROM decided WHERE outcome = 'open' AND $9 ORDER BY ride_id, place),
won AS (
  UPDATE rides r SET status = 'ACCEPTED', version = r.version + 1, accepted_driver_id = f.driver_id,
    accepted_at = moment.at, updated_at = moment.at
  FROM firsts f CROSS JOIN moment
  WHERE r.id = f.ride_id AND r.status = 'OFFERED' AND r.version = f.version
  RETURNING r.id, r.version, r.round, f.id AS attempt_id, f.offer_id, f.driver_id, f.actor_id),
stepped AS (
  INSERT INTO ride_events (ride_id, seq, from_status, to_status, round, at, actor, actor_id, news)
  SELECT won.id, version, 'OFFERED', 'ACCEPTED', round, moment.at,
    CASE WHEN actor_id = driver_id THEN 'driver' ELSE 'operator' END, actor_id, 'ride.accepted'
  FROM won CROSS JOIN moment),
answered AS (
  UPDATE ride_offers o SET response = 'ACCEPTED', responded_at = moment.at FROM won CROSS JOIN moment
  WHERE o.id = won.offer_id AND o.response IS NULL RETURNING o.id, o.attempt),
lost AS (
  UPDATE ride_offers o SET response = 'CANCELED', responded_at = moment.at, held = false,
    reason = 'accepted_by_another_driver'
  FROM won CROSS JOIN moment
  WHERE o.ride_id = won.id AND o.response IS NULL AND o.id <> won.offer_id
  RETURNING o.id, o.ride_id, o.driver_id, o.attempt),
losers AS (
  SELECT ride_id, array_agg((id, driver_id, attempt) ORDER BY id) AS offers
  FROM lost GROUP BY ride_id),
outcomes AS (
  SELECT d.id, CASE WHEN d.outcome <> 'open' OR NOT $9 THEN d.outcome
    WHEN won.id IS NOT NULL THEN 'accepted' ELSE 'ride_already_accepted' END AS outcome,
    -- A loser of this statement finds the ride as the winner left it.
    CASE WHEN d.outcome = 'open' AND $9 THEN 'ACCEPTED' ELSE d.status END AS ride_status,
    CASE WHEN d.outcome <> 'repeated' THEN 1 + coalesce((SELECT max(place) FROM ride_accept_attempts p
      WHERE p.ride_id = d.ride_id AND p.driver_id = d.driver_id AND p.place > 0), 0) END AS place
  FROM decided d LEFT JOIN won ON won.attempt_id = d.id),
written AS (
  INSERT INTO ride_accept_attempts (id, ride_id, driver_id, offer_id, idempotency_key, status,
    failure_reason, ride_status, attempt_at, completed_at, actor_id, request_id, user_agent,
    ip_address, place)
  SELECT d.id, d.ride_id, d.driver_id, d.offer_id, d.key,
    CASE v.outcome WHEN 'accepted' THEN 'SUCCESS' ELSE 'FAILED' END, nullif(v.outcome, 'accepted'),
    v.ride_status, moment.at, moment.at, d.actor_id, d.request_id, d.user_agent, d.ip_address::inet,
    v.place
  FROM decided d JOIN outcomes v USING (id) CROSS JOIN moment
  WHERE v.outcome NOT IN ('repeated', 'open') AND (v.outcome = 'accepted' OR v.place <= d.places)
  ON CONFLICT DO NOTHING RETURNING id)
SELECT d.id, d.ride_id, d.driver_id, d.passenger_id, d.offer_id, d.pickup_lat, d.pickup_lon,
  d.dropoff_lat, d.dropoff_lon, d.earlier IS NOT NULL AS repeated,
  -- A driver who gave the ride up, or has ended it, gets no passenger and no places.
  won.id IS NOT NULL OR (d.accepted_driver_id = d.driver_id
    AND d.status IN ('ACCEPTED', 'ARRIVING', 'STARTED')) IS TRUE AS is_driving,
  CASE WHEN d.earlier = 'SUCCESS' THEN 'accepted' WHEN d.earlier = 'FAILED' THEN d.failure_reason
    WHEN v.outcome = 'open' OR w.id IS NOT NULL THEN v.outcome
    WHEN v.outcome <> 'accepted' AND v.place > d.places THEN v.outcome ELSE 'again' END AS outcome,
  coalesce(d.ride_status, v.ride_status) AS ride_status, coalesce(d.completed_at, moment.at) AS at,
  won.round, answered.attempt, losers.offers
FROM decided d JOIN outcomes v USING (id) CROSS JOIN moment LEFT JOIN written w USING (id)
LEFT JOIN won ON won.attempt_id = d.id LEFT JOIN answered ON answered.id = won.offer_id
LEFT JOIN losers ON losers.ride_id = won.id
"""


async def decide_attempts(db: Db, attempts: Sequence[Attempt], *, may_win: bool) -> dict[UUID, AttemptResult]:
    """Decide and record attempts, at most one per driver; return the results by attempt id.

    Of the failures of one driver at one ride the first 20 are recorded, without an offer the first.
    Attempts at unknown rides have no result. With `may_win`, an earlier statement of this transaction has
    locked all their rides: so this statement sees everything that was committed for them, and no other
    transaction changes these rides, their offers or their attempts before this one commits.
    """
    rows = await db.fetch(
        _DECIDE,
        [attempt.id for attempt in attempts],
        [attempt.ride_id for attempt in attempts],
        [attempt.driver_id for attempt in attempts],
        [attempt.actor_id for attempt in attempts],
        [attempt.idempotency_key for attempt in attempts],
        [attempt.request_id for attempt in attempts],
        [attempt.user_agent for attempt in attempts],
        [attempt.ip_address for attempt in attempts],
        may_win,
    )
    return {row["id"]: _result(row) for row in rows}


def _result(row: Row) -> AttemptResult:
    accepted = win = None
    if row["outcome"] == "accepted":
        accepted = AcceptedRide(
            ride_id=row["ride_id"],
            driver_id=row["driver_id"],
            accepted_at=row["at"],
            details=_details(row) if row["is_driving"] else None,
        )
    if row["round"] is not None:
        win = Win(
            offer_id=row["offer_id"],
            round=row["round"],
            attempt=row["attempt"],
            lost=tuple(LostOffer(*offer) for offer in row["offers"] or ()),
        )
    return AttemptResult(
        attempt_id=row["id"],
        outcome=row["outcome"],
        ride_status=row["ride_status"],
        repeated=row["repeated"],
        accepted=accepted,
        win=win,
    )


def _details(row: Row) -> TripDetails:
    return TripDetails(
        passenger_id=row["passenger_id"],
        pickup_lat=row["pickup_lat"],
        pickup_lon=row["pickup_lon"],
        dropoff_lat=row["dropoff_lat"],
        dropoff_lon=row["dropoff_lon"],
    )


async def read_attempts(db: Db, ride_id: RideId, *, after: UUID | None, limit: int) -> list[RecordedAttempt]:
    """Return the attempts at a ride after `after`, in order of arrival."""
    rows = await db.fetch(
        "SELECT id, driver_id, offer_id, idempotency_key, status, failure_reason, ride_status, attempt_at,"
        " actor_id, request_id, user_agent, host(ip_address) AS ip_address FROM ride_accept_attempts"
        " WHERE ride_id = $1 AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3",
        ride_id,
        after,
        limit,
    )
    return [RecordedAttempt(**row) for row in rows]


async def prune_attempts(db: Db, *, older_than: timedelta, limit: int) -> int:
    """Delete older attempts at rides that have ended before that time; return how many."""
    return await db.fetchval(
        """
        WITH gone AS (
          DELETE FROM ride_accept_attempts WHERE ctid = ANY (ARRAY(
            SELECT a.ctid FROM ride_accept_attempts a JOIN rides r ON r.id = a.ride_id
            WHERE a.attempt_at < (SELECT clock_timestamp() - $1::interval)
              AND r.status IN ('COMPLETED', 'PAID', 'PAYMENT_EXPIRED', 'CANCELED', 'EXPIRED')
              AND coalesce(r.completed_at, r.canceled_at, r.updated_at)
                < (SELECT clock_timestamp() - $1::interval)
            ORDER BY a.attempt_at LIMIT $2 FOR UPDATE OF a SKIP LOCKED))
          RETURNING 1)
        SELECT count(*) FROM gone
        """,
        older_than,
        limit,
    )
