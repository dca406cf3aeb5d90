"""Erasing personal data in rides."""

from catraca.domains.people import UserId
from catraca.platform.database import Db


async def erase_addresses(db: Db, passenger_id: UserId) -> None:
    """Erase what the passenger wrote. The places of the rides stay."""
    await db.execute(
        "UPDATE rides SET pickup_address = NULL, dropoff_address = NULL, cancel_note = NULL"
        " WHERE passenger_id = $1",
        passenger_id,
    )


async def erase_devices(db: Db, driver_id: UserId) -> None:
    """Erase what attempts to accept recorded about the driver's devices."""
    await db.execute(
        "UPDATE ride_accept_attempts SET user_agent = NULL, ip_address = NULL WHERE driver_id = $1"
        " AND num_nonnulls(user_agent, ip_address) > 0",
        driver_id,
    )
