"""Every statement on trip_shares. A transaction that inserts a link has locked the ride's row.

A link works until it expires, and while `access_holds`: until the passenger's tokens are revoked.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from catraca.domains.location.sharing.model import MAX_SHARES, Share, ShareId
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Rule
from catraca.platform.database.retention import PRUNED_AT_ONCE

SHARES = "SELECT id, ride_id, created_at, expires_at FROM trip_shares"
WORKS = "expires_at > clock_timestamp() AND access_holds(passenger_id, granted_at)"
MAX_EXPORTED = 1000


async def insert_share(
    db: Db,
    share_id: ShareId,
    *,
    ride_id: UUID,
    passenger_id: UUID,
    digest: bytes,
    ttl: timedelta,
    granted_at: datetime,
) -> Share | None:
    """The new link, in the ride's first free place; None if all places are taken."""
    row = await db.fetchrow(
        "WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at)"
        " INSERT INTO trip_shares (id, ride_id, passenger_id, digest, place, created_at, expires_at,"
        "   granted_at)"
        " SELECT $1, $2, $3, $4, free.place, moment.at, moment.at + $5::interval, $7"
        " FROM generate_series(1, $6::integer) AS free (place) CROSS JOIN moment"
        " WHERE NOT EXISTS (SELECT FROM trip_shares s WHERE s.ride_id = $2 AND s.place = free.place)"
        " ORDER BY free.place LIMIT 1"
        " ON CONFLICT (ride_id, place) DO NOTHING RETURNING id, ride_id, created_at, expires_at",
        share_id,
        ride_id,
        passenger_id,
        digest,
        ttl,
        MAX_SHARES,
        granted_at,
    )
    return None if row is None else _share(row)


async def delete_ended(db: Db, ride_id: UUID) -> None:
    await db.execute(f"DELETE FROM trip_shares WHERE ride_id = $1 AND NOT ({WORKS})", ride_id)  # noqa: S608


async def ride_of_link(db: Db, digest: bytes) -> UUID | None:
    """The link's ride; None if the link is unknown, expired or revoked."""
    return await db.fetchval(f"SELECT ride_id FROM trip_shares WHERE digest = $1 AND {WORKS}", digest)  # noqa: S608


async def live_shares(db: Db, ride_id: UUID) -> Sequence[Share]:
    rows = await db.fetch(f"{SHARES} WHERE ride_id = $1 AND {WORKS} ORDER BY id", ride_id)
    return [_share(row) for row in rows]


async def delete_share(db: Db, ride_id: UUID, share_id: UUID) -> bool:
    """True if there was one."""
    deleted = await db.fetchval(
        "DELETE FROM trip_shares WHERE id = $1 AND ride_id = $2 RETURNING true", share_id, ride_id
    )
    return bool(deleted)


async def shares_of(db: Db, passenger_id: UUID) -> Sequence[Share]:
    """All links of a passenger, expired ones included."""
    rows = await db.fetch(
        f"{SHARES} WHERE passenger_id = $1 ORDER BY id LIMIT $2", passenger_id, MAX_EXPORTED
    )
    return [_share(row) for row in rows]


async def erase(db: Db, passenger_id: UUID) -> None:
    await db.execute("DELETE FROM trip_shares WHERE passenger_id = $1", passenger_id)


async def prune_shares(db: Db) -> int:
    """Delete links that expired or ended with the passenger's tokens, a bounded number; returns how many."""
    return await db.fetchval(
        "WITH ended AS (SELECT s.id FROM trip_shares s JOIN users u ON u.id = s.passenger_id"
        "              WHERE s.expires_at <= (SELECT clock_timestamp())"
        "                OR u.tokens_valid_after > s.granted_at"
        "              LIMIT $1 FOR UPDATE OF s SKIP LOCKED),"
        " deleted AS (DELETE FROM trip_shares s USING ended e WHERE s.id = e.id RETURNING 1)"
        " SELECT count(*) FROM deleted",
        PRUNED_AT_ONCE,
    )


def _share(row: Row) -> Share:
    return Share(**row)


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="a ride has five links at most",
        sentence="The number of links to one trip is limited.",
        table="trip_shares",
        constraint="five_links_a_ride",
        definition=("UNIQUE", "(ride_id, place)"),
    ),
)
