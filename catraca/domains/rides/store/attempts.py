"""Every statement on attempts to accept: who wins, who does not and why, all on record.

`judge_attempts` is the turnstile. To let somebody win, its caller holds the rides' rows, taken by an earlier
statement of the same transaction: so this one's snapshot has everything that earlier holders committed, and
nobody else changes those rides, their offers or their attempts before our own commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides.model import Accepted, Attempt, Failure, OfferId, RideId, Status
from catraca.platform.database import Db, Row

Verdict = Failure | Literal["accepted", "open", "again"]
"""`open`: might win, but only by who holds the ride. `again`: somebody recorded it at the same moment."""


@dataclass(frozen=True, slots=True)
class LostOffer:
    id: OfferId
    driver_id: UserId
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Won:
    """What an acceptance changed, beside the ride."""

    offer_id: OfferId
    round: int
    attempt: int
    lost: tuple[LostOffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    attempt_id: UUID
    verdict: Verdict
    # Of the ride, when the attempt was judged first.
    ride_status: Status
    # An answer that was given before, and is given again.
    repeated: bool
    accepted: Accepted | None
    won: Won | None


_JUDGE = (
    "WITH asked AS ("
    "   SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::text[],"
    "     $7::text[], $8::text[]) WITH ORDINALITY"
    "     AS a (id, ride_id, driver_id, actor_id, given_key, request_id, user_agent, ip_address, place)),"
    # One moment for the verdicts and for what is written of them.
    " moment AS MATERIALIZED (SELECT clock_timestamp() AS at),"
    " known AS ("
    "   SELECT a.*, r.status, r.version, r.passenger_id, r.accepted_driver_id, r.pickup_lat, r.pickup_lon,"
    "     r.dropoff_lat, r.dropoff_lon, o.id AS offer_id, o.response, o.expires_at,"
    # Without a key of the client's, all its attempts at one offer are one.
    "     coalesce(a.given_key, 'offer:' || coalesce(o.id, a.ride_id)) AS key"
    "   FROM asked a JOIN rides r ON r.id = a.ride_id"
    "   LEFT JOIN LATERAL (SELECT id, response, expires_at FROM ride_offers"
    "     WHERE ride_id = a.ride_id AND driver_id = a.driver_id ORDER BY attempt DESC LIMIT 1) AS o ON true),"
    " judged AS ("
    "   SELECT k.*, e.status AS earlier, e.failure_reason, e.ride_status, e.completed_at, CASE"
    "     WHEN e.status IS NOT NULL THEN 'repeated'"
    "     WHEN EXISTS (SELECT FROM ride_accept_attempts x WHERE x.driver_id = k.driver_id"
    "       AND x.idempotency_key = k.key AND x.ride_id <> k.ride_id"
    # Refused there for the same cause, it was never that ride's key.
    "       AND x.failure_reason IS DISTINCT FROM 'idempotency_key_reused') THEN 'idempotency_key_reused'"
    "     WHEN k.offer_id IS NULL THEN 'offer_not_received'"
    "     WHEN k.response = 'EXPIRED' OR (k.response IS NULL AND k.expires_at <= moment.at)"
    "       THEN 'offer_expired'"
    "     WHEN k.accepted_driver_id = k.driver_id THEN 'accepted_by_you'"
    "     WHEN k.status IN ('ACCEPTED', 'ARRIVING', 'STARTED', 'COMPLETED', 'PAID', 'PAYMENT_EXPIRED')"
    "       THEN 'ride_already_accepted'"
    "     WHEN k.status = 'OFFERED' AND k.response IS NULL THEN 'open'"
    "     ELSE 'ride_cannot_be_accepted' END AS verdict"
    "   FROM known k CROSS JOIN moment"
    "   LEFT JOIN LATERAL (SELECT status, failure_reason, ride_status, completed_at"
    "     FROM ride_accept_attempts WHERE driver_id = k.driver_id AND idempotency_key = k.key"
    "     AND ride_id = k.ride_id AND offer_id IS NOT DISTINCT FROM k.offer_id) AS e ON true),"
    # The first of those who may have a ride has it. The guards say once more what must be so.
    " firsts AS ("
    "   SELECT DISTINCT ON (ride_id) * FROM judged WHERE verdict = 'open' AND $9 ORDER BY ride_id, place),"
    " won AS ("
    "   UPDATE rides r SET status = 'ACCEPTED', version = r.version + 1, accepted_driver_id = f.driver_id,"
    "     accepted_at = moment.at, updated_at = moment.at"
    "   FROM firsts f CROSS JOIN moment"
    "   WHERE r.id = f.ride_id AND r.status = 'OFFERED' AND r.version = f.version"
    "   RETURNING r.id, r.version, r.round, f.id AS attempt_id, f.offer_id, f.driver_id, f.actor_id),"
    " stepped AS ("
    "   INSERT INTO ride_events (ride_id, seq, from_status, to_status, round, at, actor, actor_id, news)"
    "   SELECT won.id, version, 'OFFERED', 'ACCEPTED', round, moment.at,"
    "     CASE WHEN actor_id = driver_id THEN 'driver' ELSE 'operator' END, actor_id, 'ride.accepted'"
    "   FROM won CROSS JOIN moment),"
    " answered AS ("
    "   UPDATE ride_offers o SET response = 'ACCEPTED', responded_at = moment.at FROM won CROSS JOIN moment"
    "   WHERE o.id = won.offer_id AND o.response IS NULL RETURNING o.id, o.attempt),"
    " lost AS ("
    "   UPDATE ride_offers o SET response = 'CANCELED', responded_at = moment.at, held = false,"
    "     reason = 'accepted_by_another_driver'"
    "   FROM won CROSS JOIN moment"
    "   WHERE o.ride_id = won.id AND o.response IS NULL AND o.id <> won.offer_id"
    "   RETURNING o.id, o.ride_id, o.driver_id, o.attempt),"
    " losers AS ("
    "   SELECT ride_id, array_agg((id, driver_id, attempt) ORDER BY id) AS offers"
    "   FROM lost GROUP BY ride_id),"
    " verdicts AS ("
    "   SELECT j.id, CASE WHEN j.verdict <> 'open' OR NOT $9 THEN j.verdict"
    "     WHEN won.id IS NOT NULL THEN 'accepted' ELSE 'ride_already_accepted' END AS verdict,"
    # Whoever comes second finds the ride as the first one left it.
    "     CASE WHEN j.verdict = 'open' AND $9 THEN 'ACCEPTED' ELSE j.status END AS ride_status"
    "   FROM judged j LEFT JOIN won ON won.attempt_id = j.id),"
    " written AS ("
    "   INSERT INTO ride_accept_attempts (id, ride_id, driver_id, offer_id, idempotency_key, status,"
    "     failure_reason, ride_status, attempt_at, completed_at, actor_id, request_id, user_agent,"
    "     ip_address)"
    "   SELECT j.id, j.ride_id, j.driver_id, j.offer_id, j.key,"
    "     CASE v.verdict WHEN 'accepted' THEN 'SUCCESS' ELSE 'FAILED' END, nullif(v.verdict, 'accepted'),"
    "     v.ride_status, moment.at, moment.at, j.actor_id, j.request_id, j.user_agent, j.ip_address::inet"
    "   FROM judged j JOIN verdicts v USING (id) CROSS JOIN moment"
    "   WHERE v.verdict NOT IN ('repeated', 'open')"
    "   ON CONFLICT (driver_id, idempotency_key, ride_id, offer_id) DO NOTHING RETURNING id)"
    " SELECT j.id, j.ride_id, j.driver_id, j.passenger_id, j.offer_id, j.pickup_lat, j.pickup_lon,"
    "   j.dropoff_lat, j.dropoff_lon, j.earlier IS NOT NULL AS repeated,"
    "   CASE WHEN j.earlier = 'SUCCESS' THEN 'accepted' WHEN j.earlier = 'FAILED' THEN j.failure_reason"
    "     WHEN v.verdict = 'open' OR w.id IS NOT NULL THEN v.verdict ELSE 'again' END AS verdict,"
    "   coalesce(j.ride_status, v.ride_status) AS ride_status, coalesce(j.completed_at, moment.at) AS at,"
    "   won.round, answered.attempt, losers.offers"
    " FROM judged j JOIN verdicts v USING (id) CROSS JOIN moment LEFT JOIN written w USING (id)"
    " LEFT JOIN won ON won.attempt_id = j.id LEFT JOIN answered ON answered.id = won.offer_id"
    " LEFT JOIN losers ON losers.ride_id = won.id"
)


async def judge_attempts(db: Db, attempts: Sequence[Attempt], *, may_win: bool) -> dict[UUID, Judged]:
    """What became of each attempt, by its id; one whose ride is unknown is not there.

    At most one attempt of each driver. With `may_win` the caller holds all their rides.
    """
    rows = await db.fetch(
        _JUDGE,
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
    return {row["id"]: _judged(row) for row in rows}


def _judged(row: Row) -> Judged:
    won = None
    if row["round"] is not None:
        won = Won(
            offer_id=row["offer_id"],
            round=row["round"],
            attempt=row["attempt"],
            lost=tuple(LostOffer(*offer) for offer in row["offers"] or ()),
        )
    return Judged(
        attempt_id=row["id"],
        verdict=row["verdict"],
        ride_status=row["ride_status"],
        repeated=row["repeated"],
        accepted=_accepted(row) if row["verdict"] == "accepted" else None,
        won=won,
    )


def _accepted(row: Row) -> Accepted:
    return Accepted(
        ride_id=row["ride_id"],
        driver_id=row["driver_id"],
        passenger_id=row["passenger_id"],
        accepted_at=row["at"],
        pickup_lat=row["pickup_lat"],
        pickup_lon=row["pickup_lon"],
        dropoff_lat=row["dropoff_lat"],
        dropoff_lon=row["dropoff_lon"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAttempt:
    """An attempt as operators see it."""

    id: UUID
    driver_id: UserId
    offer_id: OfferId | None
    idempotency_key: str
    status: Literal["SUCCESS", "FAILED"]
    failure_reason: Failure | None
    ride_status: Status
    attempt_at: datetime
    actor_id: UUID
    request_id: str | None
    user_agent: str | None
    ip_address: str | None


async def read_attempts(db: Db, ride_id: RideId, *, after: UUID | None, limit: int) -> list[RecordedAttempt]:
    """In the order they came in, from the one after `after`."""
    rows = await db.fetch(
        "SELECT id, driver_id, offer_id, idempotency_key, status, failure_reason, ride_status, attempt_at,"
        " actor_id, request_id, user_agent, host(ip_address) AS ip_address FROM ride_accept_attempts"
        " WHERE ride_id = $1 AND ($2::uuid IS NULL OR id > $2) ORDER BY id LIMIT $3",
        ride_id,
        after,
        limit,
    )
    return [RecordedAttempt(**row) for row in rows]


async def forget_devices(db: Db, driver_id: UserId) -> None:
    """What an attempt tells of the person beyond that it was made."""
    await db.execute(
        "UPDATE ride_accept_attempts SET user_agent = NULL, ip_address = NULL WHERE driver_id = $1"
        " AND num_nonnulls(user_agent, ip_address) > 0",
        driver_id,
    )
