"""Reading how a ride ended."""

from catraca.domains.rides.model import Actor, Ride
from catraca.platform.database import Db


async def last_step(db: Db, ride: Ride) -> tuple[Actor, str | None]:
    """Return the actor and the reason of the ride's last step."""
    row = await db.fetchrow(
        "SELECT actor, reason FROM ride_events WHERE ride_id = $1 AND seq = $2", ride.id, ride.version
    )
    assert row is not None, "a ride stands where its steps end"
    return row["actor"], row["reason"]
