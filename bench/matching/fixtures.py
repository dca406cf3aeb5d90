"""Waiting rides far from drivers, and new rides near drivers."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg

from bench.location.world import place_of, put_online
from catraca.domains.fares import Tariff
from catraca.domains.people import UserId
from catraca.domains.rides import CancellationRule, RideId, RideRequest, request_ride
from catraca.platform.database import Database, Db
from catraca.platform.geo import Place, cell_of

DRIVERS = 4000
FEW_OPEN, MANY_OPEN = 100, 10_000
# Far from all drivers.
NOWHERE = Place(12.0, 12.0)
TARIFF = Tariff(base_cents=500, per_km_cents=180, per_minute_cents=30, minimum_cents=800, currency="BRL")
PAUSES = CancellationRule(free=3, pause=timedelta(seconds=15))


async def fill(database_url: str, redis_url: str, *, open_rides: int) -> None:
    """Put drivers online, and insert waiting rides without a driver near."""
    await put_online(database_url, redis_url, DRIVERS)
    db = await asyncpg.connect(database_url)
    try:
        await db.execute(f"""
            SET session_replication_role = replica;
            CREATE TEMP TABLE asked AS
                SELECT gen_random_uuid() AS ride, gen_random_uuid() AS passenger
                FROM generate_series(1, {open_rides});
            INSERT INTO users (id, roles) SELECT passenger, '{{passenger}}' FROM asked;
            INSERT INTO rides (id, passenger_id, status, version, pickup_lat, pickup_lon, deadline_at)
                SELECT ride, passenger, 'SEARCHING', 2, {NOWHERE.lat}, {NOWHERE.lon}, now() + interval '1 day'
                FROM asked;
            INSERT INTO ride_events (ride_id, seq, from_status, to_status, round, actor, news)
                SELECT ride, 1, NULL, 'REQUESTED', 1, 'passenger', 'ride.requested' FROM asked
                UNION ALL SELECT ride, 2, 'REQUESTED', 'SEARCHING', 1, 'system', 'matching.retry' FROM asked;
            INSERT INTO matchings (ride_id, round, started_at, phase, search, offers, next_search_at, wake_at,
                    lat, lng, cell)
                SELECT ride, 1, now(), 'searching', 2, 0, now() + interval '1 day', now() + interval '1 day',
                    {NOWHERE.lat}, {NOWHERE.lon}, {cell_of(NOWHERE)} FROM asked;
            INSERT INTO timers (kind, subject_id, due_at, awake_at)
                SELECT kind, ride, now() + interval '1 day', now() + interval '1 day'
                FROM asked CROSS JOIN unnest(ARRAY['rides.due', 'matching.due']) AS kind;
        """)
        await db.execute("VACUUM ANALYZE rides, ride_events, matchings, timers")
    finally:
        await db.close()


async def new_passengers(database: Database, count: int) -> list[UUID]:
    ids = [uuid4() for _ in range(count)]
    async with database.connection() as db:
        await db.execute(
            "INSERT INTO users (id, roles) SELECT id, '{passenger}' FROM unnest($1::uuid[]) AS id", ids
        )
    return ids


def pickup(number: int) -> Place:
    """Return a place next to another driver for each number."""
    return place_of(number * 7 % DRIVERS, DRIVERS)


async def request_rides(database: Database, passengers: Sequence[UUID]) -> list[RideId]:
    """Request a ride for each passenger."""
    asked: list[RideId] = []
    for number, passenger_id in enumerate(passengers):

        async def ask(db: Db, number: int = number, passenger_id: UUID = passenger_id) -> RideId:
            request = RideRequest(pickup=pickup(number))
            ride = await request_ride(
                db,
                request,
                passenger_id=UserId(passenger_id),
                tariff=TARIFF,
                search_timeout=timedelta(minutes=5),
                cancellations=PAUSES,
            )
            return ride.id

        asked.append(await database.run(ask))
    return asked


async def delete_rides(database: Database, ride_ids: Sequence[UUID]) -> None:
    """Delete the rides and free their drivers."""
    async with database.transaction() as db:
        await db.execute("SET LOCAL session_replication_role = replica")
        for table in ("ride_accept_attempts", "ride_offers", "ride_events", "matching_searches", "matchings"):
            await db.execute(f"DELETE FROM {table} WHERE ride_id = ANY ($1::uuid[])", ride_ids)
        await db.execute("DELETE FROM timers WHERE subject_id = ANY ($1::uuid[])", ride_ids)
        await db.execute("DELETE FROM rides WHERE id = ANY ($1::uuid[])", ride_ids)
        await db.execute("TRUNCATE outbox, outbox_sent")
