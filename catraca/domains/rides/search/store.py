"""The offers of one ride, as its search needs them. The ride's row is locked when they change."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from catraca.domains.people import UserId
from catraca.domains.rides.model import Offer, RideId
from catraca.platform.database import Db, Row

COLUMNS = "id, ride_id, driver_id, round, attempt, offered_at, expires_at, responded_at, response, reason"
OFFERS = "SELECT " + COLUMNS + " FROM ride_offers"  # noqa: S608 - constants only


async def read_offers(db: Db, ride_ids: Collection[RideId]) -> tuple[datetime, list[Offer]]:
    """Return the database's time, and the offers of all rounds of these rides, those of each in order."""
    rows = await db.fetch(
        "SELECT moment.at, o.* FROM (SELECT clock_timestamp() AS at) AS moment"  # noqa: S608 - constants only
        f" LEFT JOIN ({OFFERS} WHERE ride_id = ANY ($1::uuid[])) AS o ON true ORDER BY o.attempt",
        list(ride_ids),
    )
    at = rows[0]["at"]
    if rows[0]["id"] is None:
        return at, []
    return at, [Offer(**{name: row[name] for name in COLUMNS.split(", ")}) for row in rows]


async def newest_offer(db: Db, ride_id: RideId, driver_id: UserId) -> Offer | None:
    row = await db.fetchrow(
        f"{OFFERS} WHERE ride_id = $1 AND driver_id = $2 ORDER BY attempt DESC LIMIT 1",
        ride_id,
        driver_id,
    )
    return None if row is None else Offer(**row)


async def first_expiry(db: Db, ride_id: RideId) -> datetime | None:
    """Return when the first live offer expires; None without live offers."""
    return await db.fetchval(
        "SELECT min(expires_at) FROM ride_offers WHERE ride_id = $1 AND response IS NULL", ride_id
    )


async def search_is_overdue(db: Db, ride_id: RideId, *, grace: timedelta) -> bool:
    return await db.fetchval(
        "SELECT deadline_at + $2::interval <= clock_timestamp() FROM rides WHERE id = $1", ride_id, grace
    )


async def expire_lapsed_offers(db: Db, ride_id: RideId) -> list[Offer]:
    """End the offers whose time is over. The guard excludes an acceptance of the same offer."""
    rows = await db.fetch(
        "UPDATE ride_offers SET response = 'EXPIRED', responded_at = clock_timestamp(), held = false"  # noqa: S608
        " WHERE ride_id = $1 AND response IS NULL AND expires_at <= (SELECT clock_timestamp())"
        f" RETURNING {COLUMNS}",
        ride_id,
    )
    return in_order(rows)


async def cancel_live_offers(db: Db, ride_id: RideId, *, reason: str) -> list[Offer]:
    rows = await db.fetch(
        "UPDATE ride_offers SET response = 'CANCELED', responded_at = clock_timestamp(), held = false,"  # noqa: S608
        f" reason = $2 WHERE ride_id = $1 AND response IS NULL RETURNING {COLUMNS}",
        ride_id,
        reason,
    )
    return in_order(rows)


async def release_driver(db: Db, ride_id: RideId, *, reason: str | None = None) -> None:
    """Release the accepted driver. The offer's response stays `ACCEPTED`."""
    await db.execute(
        "UPDATE ride_offers SET held = false, reason = $2"
        " WHERE ride_id = $1 AND held AND response = 'ACCEPTED'",
        ride_id,
        reason,
    )


def in_order(rows: Sequence[Row]) -> list[Offer]:
    return sorted((Offer(**row) for row in rows), key=lambda offer: offer.attempt)
