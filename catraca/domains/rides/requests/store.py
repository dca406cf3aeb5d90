"""Inserting rides."""

from datetime import timedelta

import msgspec

from catraca.domains.people import UserId
from catraca.domains.rides.model import Ride, RideId
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
) -> Ride | None:
    """Insert a ride with its first step; None if the passenger has an unfinished ride."""
    community, prices = request.community, request.prices
    row = await db.fetchrow(
        f"""
        WITH ride AS (
          INSERT INTO rides (id, passenger_id, pickup_lat, pickup_lon, pickup_address,
            dropoff_lat, dropoff_lon, dropoff_address, distance_meters, duration_seconds,
            estimated_fare_cents, deadline_at, type, community_id, community_version, tier, tariff,
            asked_price_cents, confirmation_id)
          VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, clock_timestamp() + $12::interval,
            CASE WHEN $13::uuid IS NULL THEN 'normal' ELSE 'comunidade' END, $13, $14, $15, $16::jsonb,
            $17, $18)
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
    )
    return None if row is None else to_ride(row)


async def unfinished_ride_of(db: Db, passenger_id: UserId) -> RideId | None:
    return await db.fetchval(
        "SELECT id FROM rides WHERE passenger_id = $1 AND " + UNFINISHED,  # noqa: S608 - constants only
        passenger_id,
    )
