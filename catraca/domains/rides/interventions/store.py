"""Reading how a ride ended."""

from typing import Literal

from catraca.domains.rides.model import Actor, Ride
from catraca.platform.database import Db


async def step_to(
    db: Db, ride: Ride, status: Literal["COMPLETED", "CANCELED"]
) -> tuple[Actor, str | None] | None:
    """Return the actor and the reason of the step to this status; None if the ride did not reach it."""
    row = await db.fetchrow(
        "SELECT actor, reason FROM ride_events WHERE ride_id = $1 AND to_status = $2", ride.id, status
    )
    return None if row is None else (row["actor"], row["reason"])
