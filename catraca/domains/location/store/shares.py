"""Every statement on trip_shares. Whoever adds a link to a ride holds the ride's row."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from catraca.domains.location.model import LINKS_A_RIDE, Share, ShareId
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Rule

SHARES = "SELECT id, ride_id, created_at, expires_at FROM trip_shares"
SHARES_TOLD = 1000


async def insert_share(
    db: Db, share_id: ShareId, *, ride_id: UUID, passenger_id: UUID, digest: bytes, ttl: timedelta
) -> Share | None:
    """The new link, in the first of the ride's places that is free; None when none is."""
    row = await db.fetchrow(
        "WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at)"
        " INSERT INTO trip_shares (id, ride_id, passenger_id, digest, place, created_at, expires_at)"
        " SELECT $1, $2, $3, $4, free.place, moment.at, moment.at + $5::interval"
        " FROM generate_series(1, $6::integer) AS free (place) CROSS JOIN moment"
        " WHERE NOT EXISTS (SELECT FROM trip_shares s WHERE s.ride_id = $2 AND s.place = free.place)"
        " ORDER BY free.place LIMIT 1"
        " ON CONFLICT (ride_id, place) DO NOTHING RETURNING id, ride_id, created_at, expires_at",
        share_id,
        ride_id,
        passenger_id,
        digest,
        ttl,
        LINKS_A_RIDE,
    )
    return None if row is None else _share(row)


async def free_places(db: Db, ride_id: UUID) -> None:
    """Links that have expired make room for new ones."""
    await db.execute(
        "DELETE FROM trip_shares WHERE ride_id = $1 AND expires_at <= clock_timestamp()", ride_id
    )


async def ride_behind(db: Db, digest: bytes) -> UUID | None:
    """The ride that a link shows; None for one that has expired, was revoked or never was."""
    return await db.fetchval(
        "SELECT ride_id FROM trip_shares WHERE digest = $1 AND expires_at > clock_timestamp()", digest
    )


async def live_shares(db: Db, ride_id: UUID) -> Sequence[Share]:
    rows = await db.fetch(
        f"{SHARES} WHERE ride_id = $1 AND expires_at > clock_timestamp() ORDER BY id", ride_id
    )
    return [_share(row) for row in rows]


async def remove_share(db: Db, ride_id: UUID, share_id: UUID) -> bool:
    """Whether there was one."""
    removed = await db.fetchval(
        "DELETE FROM trip_shares WHERE id = $1 AND ride_id = $2 RETURNING true", share_id, ride_id
    )
    return bool(removed)


async def shares_of(db: Db, passenger_id: UUID) -> Sequence[Share]:
    """All that is kept of a person's links."""
    rows = await db.fetch(f"{SHARES} WHERE passenger_id = $1 ORDER BY id LIMIT $2", passenger_id, SHARES_TOLD)
    return [_share(row) for row in rows]


async def erase(db: Db, passenger_id: UUID) -> None:
    await db.execute("DELETE FROM trip_shares WHERE passenger_id = $1", passenger_id)


async def prune(db: Db, *, limit: int) -> int:
    return await db.fetchval(
        "WITH dead AS (SELECT id FROM trip_shares WHERE expires_at <= (SELECT clock_timestamp())"
        "              ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED),"
        " gone AS (DELETE FROM trip_shares s USING dead WHERE s.id = dead.id RETURNING 1)"
        " SELECT count(*) FROM gone",
        limit,
    )


def _share(row: Row) -> Share:
    return Share(**row)


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="a ride has five links at most",
        sentence="Nobody can make more links to one trip than a person can keep an eye on.",
        table="trip_shares",
        constraint="five_links_a_ride",
        definition=("UNIQUE", "(ride_id, place)"),
    ),
)
