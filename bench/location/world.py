"""Online drivers, evenly spread: the number near a place does not depend on the total."""

import asyncio
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from uuid import NAMESPACE_OID, uuid5

import asyncpg

from catraca.domains.location import store as index
from catraca.domains.location.model import DriverId, Ping
from catraca.platform.clock import now
from catraca.platform.geo import METERS_A_DEGREE, Place, cell_of
from catraca.platform.redis_client import RedisClient, RedisLimits

CENTRE = Place(-12.98, -45.0)
IN_REACH = 100
RADIUS_METERS = 5000.0
APART_METERS = math.sqrt(math.pi * RADIUS_METERS**2 / IN_REACH)
SHOWN_AT_ONCE = 1000


def driver_id(number: int) -> DriverId:
    """An id whose order does not follow the number: neighbours on the map are not neighbours in an index."""
    return DriverId(uuid5(NAMESPACE_OID, str(number)))


def place_of(number: int, count: int) -> Place:
    """The place of driver `number` of `count`: rows of a square around the centre."""
    side = math.ceil(math.sqrt(count))
    row, column = divmod(number, side)
    return place_at((column - side / 2) * APART_METERS, (row - side / 2) * APART_METERS)


def place_at(east_meters: float, north_meters: float) -> Place:
    lat = CENTRE.lat + north_meters / METERS_A_DEGREE
    return Place(lat, CENTRE.lon + east_meters / METERS_A_DEGREE / math.cos(math.radians(lat)))


def reach_of_search(count: int) -> float:
    """The largest distance from the centre, east and north, with the full number of drivers around."""
    return max(0.0, math.sqrt(count) * APART_METERS / 2 - RADIUS_METERS)


async def put_online(database_url: str, redis_url: str, count: int) -> None:
    """Insert this many approved drivers, online and in the Redis index; existing drivers stay unchanged."""
    pings = {driver_id(number): Ping(place_of(number, count), now()) for number in range(count)}
    await asyncio.gather(_write_rows(database_url, pings.items()), _show(redis_url, list(pings.items())))


async def _write_rows(database_url: str, pings: Iterable[tuple[DriverId, Ping]]) -> None:
    db = await asyncpg.connect(database_url)
    try:
        await db.execute(
            "SET synchronous_commit = off;"
            # Without the foreign key checks, which take longer than the rest; the rows are consistent.
            "SET session_replication_role = replica;"
            "CREATE TEMP TABLE met (id uuid, lat float8, lng float8, at timestamptz, cell integer)"
        )
        await db.copy_records_to_table("met", records=_records(pings))
        # In the order of ids, which is faster and unrelated to the places.
        await db.execute("""
            INSERT INTO users (id, roles) SELECT id, '{driver}' FROM met ORDER BY id ON CONFLICT DO NOTHING;
            INSERT INTO drivers (user_id, approval) SELECT id, 'approved' FROM met ORDER BY id
                ON CONFLICT DO NOTHING;
            INSERT INTO driver_presence (driver_id, online, free_since, lat, lng, position_at, cell)
                SELECT id, true, clock_timestamp(), lat, lng, at, cell FROM met ORDER BY id
                ON CONFLICT DO NOTHING;
            DROP TABLE met;
        """)
        await db.execute("VACUUM ANALYZE users, drivers, driver_presence")
        await db.execute("CHECKPOINT")
    finally:
        await db.close()


def _records(
    pings: Iterable[tuple[DriverId, Ping]],
) -> Iterator[tuple[DriverId, float, float, datetime, int]]:
    for driver, ping in pings:
        yield driver, ping.place.lat, ping.place.lon, ping.at, cell_of(ping.place)


async def _show(redis_url: str, pings: Sequence[tuple[DriverId, Ping]]) -> None:
    redis = RedisClient(redis_url, limits=RedisLimits(answer_seconds=60))
    try:
        for start in range(0, len(pings), SHOWN_AT_ONCE):
            await index.add_drivers(redis, dict(pings[start : start + SHOWN_AT_ONCE]), mode="NX")
        await index.mark_complete(redis)
    finally:
        await redis.close()
