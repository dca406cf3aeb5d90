"""Drivers at work, evenly spread: so many in reach of any place among them, however many there are."""

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
    """Neighbours on the map are no neighbours in an index of ids, as with people who signed up."""
    return DriverId(uuid5(NAMESPACE_OID, str(number)))


def place_of(number: int, count: int) -> Place:
    """Where the driver of this number stands, among so many: a square of rows around the centre."""
    side = math.ceil(math.sqrt(count))
    row, column = divmod(number, side)
    return place_at((column - side / 2) * APART_METERS, (row - side / 2) * APART_METERS)


def place_at(east_meters: float, north_meters: float) -> Place:
    lat = CENTRE.lat + north_meters / METERS_A_DEGREE
    return Place(lat, CENTRE.lon + east_meters / METERS_A_DEGREE / math.cos(math.radians(lat)))


def reach_of_search(count: int) -> float:
    """How far from the centre one may stand, east and north, and still have the full number around."""
    return max(0.0, math.sqrt(count) * APART_METERS / 2 - RADIUS_METERS)


async def put_online(database_url: str, redis_url: str, count: int) -> None:
    """Put so many approved drivers online and on the map; drivers who are there stay unchanged."""
    pings = {driver_id(number): Ping(place_of(number, count), now()) for number in range(count)}
    await asyncio.gather(_write_rows(database_url, pings.items()), _show(redis_url, list(pings.items())))


async def _write_rows(database_url: str, pings: Iterable[tuple[DriverId, Ping]]) -> None:
    db = await asyncpg.connect(database_url)
    try:
        await db.execute(
            "SET synchronous_commit = off;"
            # What refers to whom is right by the making of it; to look that up takes longer than the rest.
            "SET session_replication_role = replica;"
            "CREATE TEMP TABLE met (id uuid, lat float8, lng float8, at timestamptz, cell integer)"
        )
        await db.copy_records_to_table("met", records=_records(pings))
        # In the order of ids, which is quicker, and no order on the map.
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
