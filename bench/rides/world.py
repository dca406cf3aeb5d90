"""Open rides for measurements: each with one offer to a driver of its own, numbered."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import asyncpg

from catraca.platform.auth import sign_token

# Ids are made from numbers, so that pgbench can compute them too.
RIDE, OFFER, DRIVER, PASSENGER = "a", "b", "c", "d"


def numbered_id(kind: str, number: int) -> UUID:
    return UUID(f"{kind * 8}-0000-4000-8000-{number:012x}")


def numbered_sql(kind: str, number: str) -> str:
    """Return `numbered_id` as an SQL expression."""
    return f"('{kind * 8}-0000-4000-8000-' || lpad(to_hex(({number})::integer), 12, '0'))::uuid"


@dataclass(frozen=True, slots=True)
class OpenRides:
    """`count` rides that no driver has accepted yet, numbered from `first`."""

    first: int
    count: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.first + self.count))


async def make_rides(database_url: str, count: int) -> OpenRides:
    """Insert offered rides, numbered after the existing ones."""
    db = await asyncpg.connect(database_url)
    try:
        rides = OpenRides(1 + await db.fetchval("SELECT count(*) FROM rides"), count)
        await insert_rides(db, rides)
        await db.execute("ANALYZE rides; ANALYZE ride_offers; ANALYZE ride_events; ANALYZE timers")
        # Unsent events of the last measurement must not load this one.
        await db.execute("TRUNCATE outbox, outbox_sent")
        await db.execute("CHECKPOINT")
    finally:
        await db.close()
    return rides


async def insert_rides(db: asyncpg.Connection, rides: OpenRides) -> None:
    """Insert offered rides with these numbers in one transaction."""
    numbers = f"generate_series({rides.first}, {rides.first + rides.count - 1}) AS n"
    ride, offer, driver, passenger = (numbered_sql(kind, "n") for kind in (RIDE, OFFER, DRIVER, PASSENGER))
    await db.execute(f"""
        BEGIN;
        INSERT INTO users (id, roles) SELECT {driver}, '{{driver}}'::text[] FROM {numbers}
            UNION ALL SELECT {passenger}, '{{passenger}}'::text[] FROM {numbers};
        INSERT INTO drivers (user_id, approval) SELECT {driver}, 'approved' FROM {numbers};
        INSERT INTO rides (id, passenger_id, status, version, pickup_lat, pickup_lon, deadline_at)
            SELECT {ride}, {passenger}, 'OFFERED', 2, -12.98, -38.5, clock_timestamp() + interval '1 day'
            FROM {numbers};
        INSERT INTO ride_events (ride_id, seq, from_status, to_status, round, actor, news)
            SELECT {ride}, 1, NULL, 'REQUESTED', 1, 'passenger', 'ride.requested' FROM {numbers}
            UNION ALL SELECT {ride}, 2, 'REQUESTED', 'OFFERED', 1, 'operator', 'matching.candidate_found'
            FROM {numbers};
        INSERT INTO ride_offers (id, ride_id, driver_id, round, attempt, expires_at)
            SELECT {offer}, {ride}, {driver}, 1, 1, clock_timestamp() + interval '1 day' FROM {numbers};
        INSERT INTO timers (kind, subject_id, due_at, awake_at)
            SELECT 'rides.due', {ride}, clock_timestamp() + interval '1 day',
                clock_timestamp() + interval '1 day' FROM {numbers};
        COMMIT;
    """)


async def make_crowd(database_url: str, count: int) -> OpenRides:
    """Insert offered rides, then move all offers to the first ride."""
    crowd = await make_rides(database_url, count)
    db = await asyncpg.connect(database_url)
    try:
        await db.execute(
            f"UPDATE ride_offers SET ride_id = {numbered_sql(RIDE, str(crowd.first))}, attempt = ranked.rank"
            " FROM (SELECT id, row_number() OVER (ORDER BY id) AS rank FROM ride_offers"
            f"   WHERE id >= {numbered_sql(OFFER, str(crowd.first))}) AS ranked"
            " WHERE ride_offers.id = ranked.id"
        )
    finally:
        await db.close()
    return crowd


async def count_accepted(database_url: str, rides: OpenRides) -> int:
    db = await asyncpg.connect(database_url)
    try:
        return await db.fetchval(
            "SELECT count(*) FROM rides WHERE status = 'ACCEPTED'"
            f" AND id BETWEEN {numbered_sql(RIDE, str(rides.first))}"
            f" AND {numbered_sql(RIDE, str(rides.first + rides.count - 1))}"
        )
    finally:
        await db.close()


def token_of(driver: int, secret: str) -> str:
    return sign_token(
        secret, subject=numbered_id(DRIVER, driver), roles=["driver"], lifetime=timedelta(hours=6)
    )
