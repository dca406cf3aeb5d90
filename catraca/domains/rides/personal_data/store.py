"""Statements that export or erase personal data in rides."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides.model import RideId
from catraca.platform.database import Db, Row


async def erase_passenger(db: Db, passenger_id: UserId) -> None:
    """Erase what the passenger wrote, and round the places to about a kilometre."""
    await db.execute(
        """
        UPDATE rides SET pickup_address = NULL, dropoff_address = NULL, cancel_note = NULL,
          pickup_lat = round(pickup_lat::numeric, 2), pickup_lon = round(pickup_lon::numeric, 2),
          dropoff_lat = round(dropoff_lat::numeric, 2), dropoff_lon = round(dropoff_lon::numeric, 2)
        WHERE passenger_id = $1
        """,
        passenger_id,
    )
    await db.execute(
        """
        UPDATE matchings m SET lat = round(lat::numeric, 2), lng = round(lng::numeric, 2)
        FROM rides r WHERE r.id = m.ride_id AND r.passenger_id = $1
        """,
        passenger_id,
    )


async def read_aggregates(db: Db, passenger_id: UserId) -> list[UUID]:
    """The aggregates whose events have places of the passenger: rides and their offers."""
    rows = await db.fetch(
        """
        SELECT id FROM rides WHERE passenger_id = $1
        UNION ALL SELECT o.id FROM ride_offers o JOIN rides r ON r.id = o.ride_id WHERE r.passenger_id = $1
        """,
        passenger_id,
    )
    return [row["id"] for row in rows]


async def erase_notes(db: Db, driver_id: UserId) -> None:
    """Erase what the driver wrote when canceling."""
    await db.execute(
        """
        UPDATE rides SET cancel_note = NULL
        WHERE accepted_driver_id = $1 AND canceled_by = 'driver' AND cancel_note IS NOT NULL
        """,
        driver_id,
    )


async def erase_devices(db: Db, driver_id: UserId) -> None:
    """Erase what attempts to accept recorded about the driver's devices."""
    await db.execute(
        "UPDATE ride_accept_attempts SET user_agent = NULL, ip_address = NULL WHERE driver_id = $1"
        " AND num_nonnulls(user_agent, ip_address) > 0",
        driver_id,
    )


async def erase_old_devices(db: Db, *, older_than: timedelta, limit: int) -> int:
    """Erase user agents and network addresses of old attempts, also at rides that never ended."""
    return await db.fetchval(
        """
        WITH erased AS (
          UPDATE ride_accept_attempts SET user_agent = NULL, ip_address = NULL WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM ride_accept_attempts
            WHERE attempt_at < (SELECT clock_timestamp() - $1::interval)
              AND num_nonnulls(user_agent, ip_address) > 0
            ORDER BY attempt_at LIMIT $2 FOR NO KEY UPDATE SKIP LOCKED))
          RETURNING 1)
        SELECT count(*) FROM erased
        """,
        older_than,
        limit,
    )


async def read_notes(db: Db, user_id: UserId) -> dict[RideId, str]:
    """The notes that the person wrote when canceling, by ride."""
    rows = await db.fetch(
        """
        SELECT id, cancel_note FROM rides WHERE cancel_note IS NOT NULL
          AND (passenger_id = $1 AND canceled_by = 'passenger'
            OR accepted_driver_id = $1 AND canceled_by = 'driver')
        """,
        user_id,
    )
    return {row["id"]: row["cancel_note"] for row in rows}


async def read_attempts(db: Db, driver_id: UserId, *, limit: int) -> Sequence[Row]:
    """The driver's attempts to accept rides, latest first, with the device that made them."""
    return await db.fetch(
        """
        SELECT ride_id, attempt_at, status, failure_reason, user_agent, host(ip_address) AS ip_address
        FROM ride_accept_attempts WHERE driver_id = $1 ORDER BY attempt_at DESC, id LIMIT $2
        """,
        driver_id,
        limit,
    )
