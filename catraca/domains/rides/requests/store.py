"""Inserting rides."""

from datetime import timedelta
from typing import NamedTuple

import msgspec

from catraca.domains.people import UserId
from catraca.domains.rides.model import CancellationRule, Ride, RideId
from catraca.domains.rides.requests.model import RideRequest
from catraca.domains.rides.store import COLUMNS, to_ride
from catraca.platform.database import Db
from catraca.platform.geo import Trip

UNFINISHED = "status IN ('REQUESTED', 'SEARCHING', 'OFFERED', 'ACCEPTED', 'ARRIVING', 'STARTED')"


async def insert_ride(
    db: Db,
    ride_id: RideId,
    request: RideRequest,
    *,
    passenger_id: UserId,
    trip: Trip | None,
    fare_cents: int | None,
    search_timeout: timedelta,
    cancellations: CancellationRule,
) -> Ride | None:
    """Insert a ride with its first step; None if the passenger has an unfinished ride or has to pause."""
    community, prices = request.community, request.prices
    row = await db.fetchrow(
        f"""
        WITH {_pause(passenger="$2", first=19)},
        ride AS (
          INSERT INTO rides (id, passenger_id, pickup_lat, pickup_lon, pickup_address,
            dropoff_lat, dropoff_lon, dropoff_address, distance_meters, duration_seconds,
            estimated_fare_cents, deadline_at, type, community_id, community_version, tier, tariff,
            asked_price_cents, confirmation_id)
          SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, clock_timestamp() + $12::interval,
            CASE WHEN $13::uuid IS NULL THEN 'normal' ELSE 'comunidade' END, $13, $14, $15, $16::jsonb,
            $17, $18
          FROM pause WHERE pause.seconds <= 0
          ON CONFLICT (passenger_id) WHERE {UNFINISHED} DO NOTHING RETURNING {COLUMNS}),
        step AS (
          INSERT INTO ride_events (ride_id, seq, to_status, round, at, actor, actor_id, news)
          SELECT id, version, status, round, created_at, 'passenger', passenger_id, 'ride.requested'
          FROM ride)
        SELECT * FROM ride
        """,  # noqa: S608 - constants only
        ride_id,
        passenger_id,
        request.pickup.lat,
        request.pickup.lon,
        request.pickup_address,
        request.dropoff and request.dropoff.lat,
        request.dropoff and request.dropoff.lon,
        request.dropoff_address,
        trip and trip.distance_meters,
        trip and trip.duration_seconds,
        fare_cents,
        search_timeout,
        community and community.id,
        community and community.version,
        request.tier,
        msgspec.json.encode(prices).decode() if prices else None,
        request.asked_price_cents,
        request.confirmation_id,
        *_values(cancellations),
    )
    return None if row is None else to_ride(row)


class Obstacle(NamedTuple):
    """What keeps a passenger from requesting a ride: an unfinished ride, or a pause after cancellations."""

    unfinished_id: RideId | None
    cancellations: int
    pause_seconds: float


async def read_obstacle(db: Db, passenger_id: UserId, rule: CancellationRule) -> Obstacle:
    """Return the unfinished ride, the cancellations in the window, and the seconds until the next request."""
    row = await db.fetchrow(
        f"""
        WITH {_pause(passenger="$1", first=2)}
        SELECT (SELECT id FROM rides WHERE passenger_id = $1 AND {UNFINISHED}) AS unfinished_id,
          count, seconds
        FROM pause
        """,  # noqa: S608 - constants only
        passenger_id,
        *_values(rule),
    )
    assert row is not None, "an aggregate has one row"
    return Obstacle(row["unfinished_id"], row["count"], row["seconds"])


def _pause(*, passenger: str, first: int) -> str:
    """A query of the pause, 0 without one. `first` is the number of the first of `_values`."""
    free, pause, window, longest = (f"${first + number}" for number in range(4))
    return f"""
        pause AS MATERIALIZED (
          SELECT count, CASE WHEN count <= {free}::integer THEN 0 ELSE greatest(0, extract(epoch FROM
            last + least({pause}::interval * 2.0 ^ least(count - {free} - 1, 20), {longest}::interval)
            - clock_timestamp()))::float8 END AS seconds
          FROM (SELECT count(*)::integer AS count, max(canceled_at) AS last FROM (
            SELECT canceled_at FROM rides WHERE passenger_id = {passenger} AND canceled_by = 'passenger'
              AND canceled_at > (SELECT clock_timestamp() - {window}::interval)
            ORDER BY canceled_at DESC LIMIT {free}::integer + 100) AS recent) AS counted)
        """  # noqa: S608 - numbers of ours


def _values(rule: CancellationRule) -> tuple[int, timedelta, timedelta, timedelta]:
    return rule.free, rule.pause, rule.window, rule.longest


async def unfinished_ride_of(db: Db, passenger_id: UserId) -> RideId | None:
    return await db.fetchval(
        "SELECT id FROM rides WHERE passenger_id = $1 AND " + UNFINISHED,  # noqa: S608 - constants only
        passenger_id,
    )
