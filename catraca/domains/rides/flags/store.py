"""The rows of ride_flags."""

from uuid import UUID

from catraca.domains.rides.flags.model import Flag, FlagId, FlagKind
from catraca.domains.rides.model import RideId
from catraca.platform.database import Db
from catraca.platform.database.conditions import Conditions

COLUMNS = "id, ride_id, kind, measured, allowed, flagged_at, reviewed_at, reviewed_by"


async def insert_flag(
    db: Db, flag_id: FlagId, ride_id: RideId, kind: FlagKind, *, measured: int, allowed: int | None
) -> Flag | None:
    """Insert a flag; None if the ride has one of this kind."""
    row = await db.fetchrow(
        "INSERT INTO ride_flags (id, ride_id, kind, measured, allowed) VALUES ($1, $2, $3, $4, $5)"  # noqa: S608
        f" ON CONFLICT ON CONSTRAINT one_flag_a_ride_and_kind DO NOTHING RETURNING {COLUMNS}",
        flag_id,
        ride_id,
        kind,
        measured,
        allowed,
    )
    return None if row is None else Flag(**row)


async def read_flags(
    db: Db, *, ride_id: UUID | None, only_open: bool, before: UUID | None, limit: int
) -> list[Flag]:
    """Return flags before `before`, newest first."""
    where = Conditions()
    if only_open:
        where.add("reviewed_at IS NULL")
    if ride_id is not None:
        where.add("ride_id = {}", ride_id)
    if before is not None:
        where.add("id < {}", before)
    rows = await db.fetch(
        f"SELECT {COLUMNS} FROM ride_flags WHERE {where} ORDER BY id DESC LIMIT {where.value(limit)}",  # noqa: S608
        *where.values,
    )
    return [Flag(**row) for row in rows]


async def close_flag(db: Db, flag_id: FlagId, *, by: UUID) -> Flag | None:
    """Mark an open flag as reviewed; None if there is no open flag with this id."""
    row = await db.fetchrow(
        "UPDATE ride_flags SET reviewed_at = clock_timestamp(), reviewed_by = $2"  # noqa: S608
        f" WHERE id = $1 AND reviewed_at IS NULL RETURNING {COLUMNS}",
        flag_id,
        by,
    )
    return None if row is None else Flag(**row)


async def read_flag(db: Db, flag_id: FlagId) -> Flag | None:
    row = await db.fetchrow(f"SELECT {COLUMNS} FROM ride_flags WHERE id = $1", flag_id)  # noqa: S608
    return None if row is None else Flag(**row)


async def count_open_flags(db: Db, *, up_to: int) -> int:
    return await db.fetchval(
        "SELECT count(*) FROM (SELECT FROM ride_flags WHERE reviewed_at IS NULL LIMIT $1) AS f", up_to
    )
