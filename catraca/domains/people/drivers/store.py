"""Statements on driver profiles."""

from collections.abc import Iterable, Sequence
from uuid import UUID

import asyncpg

from catraca.domains.people.drivers.errors import HomeCommunityUnknown
from catraca.domains.people.drivers.model import Verdict
from catraca.domains.people.model import Approval, Driver, UserId
from catraca.platform.database import Db
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule

# A condition on a column `driver_id`: the driver is approved, and the user is not erased.
MAY_DRIVE = (
    # Not EXISTS: while tables are small, its plan may be to read all of their rows, and is kept as they grow.
    "((SELECT approval = 'approved' FROM drivers WHERE user_id = driver_id) IS TRUE"
    " AND (SELECT erased_at IS NULL FROM users WHERE id = driver_id) IS TRUE)"
)


async def insert_driver_if_new(db: Db, user_id: UUID, *, approval: Approval) -> None:
    """Add the role and the profile to a user who is not erased; what is there stays as it is."""
    await db.execute(
        "WITH person AS ("
        "   UPDATE users SET roles ="
        "     CASE WHEN 'driver' = ANY (roles) THEN roles ELSE roles || 'driver'::text END"
        "   WHERE id = $1 AND erased_at IS NULL RETURNING id)"
        " INSERT INTO drivers (user_id, approval) SELECT id, $2 FROM person ON CONFLICT (user_id) DO NOTHING",
        user_id,
        approval,
    )


async def insert_approved_drivers(db: Db, drivers: Sequence[tuple[UserId, str | None, str | None]]) -> None:
    """By id, vehicle and plate."""
    await db.executemany(
        "INSERT INTO drivers (user_id, vehicle, plate, approval) VALUES ($1, $2, $3, 'approved')"
        " ON CONFLICT DO NOTHING",
        drivers,
    )


async def read_approved(db: Db, user_ids: Iterable[UUID]) -> set[UUID]:
    """The users among these who may drive."""
    rows = await db.fetch(
        f"SELECT driver_id FROM unnest($1::uuid[]) AS driver_id WHERE {MAY_DRIVE}",  # noqa: S608
        list(user_ids),
    )
    return {row["driver_id"] for row in rows}


async def update_driver(db: Db, user_id: UserId, driver: Driver) -> None:
    """Write the driver's own fields; a foreign key checks the home community."""
    try:
        await db.execute(
            "UPDATE drivers SET vehicle = $2, plate = $3, home_community_id = $4, approval = $5,"
            " approval_reason = $6, updated_at = clock_timestamp() WHERE user_id = $1",
            user_id,
            driver.vehicle,
            driver.plate,
            driver.home_community_id,
            driver.approval,
            driver.approval_reason,
        )
    except asyncpg.ForeignKeyViolationError as error:
        if getattr(error, "constraint_name", None) != "homes_are_communities":
            raise
        raise HomeCommunityUnknown from error


async def set_approval(db: Db, user_id: UserId, approval: Verdict, *, reason: str | None, by: UUID) -> None:
    await db.execute(
        "UPDATE drivers SET approval = $2, approval_reason = $3, approval_by = $4,"
        " approval_at = clock_timestamp(), updated_at = clock_timestamp() WHERE user_id = $1",
        user_id,
        approval,
        reason,
        by,
    )


async def erase_driver(db: Db, user_id: UserId) -> None:
    await db.execute(
        "UPDATE drivers SET vehicle = NULL, plate = NULL, home_community_id = NULL, approval_reason = NULL,"
        " updated_at = clock_timestamp() WHERE user_id = $1",
        user_id,
    )


INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        name="erased drivers have no car",
        sentence="Vehicle, plate, home community and approval reason of an erased driver are empty.",
        query="SELECT d.user_id FROM drivers d JOIN users u ON u.id = d.user_id WHERE u.erased_at IS NOT NULL"
        " AND num_nonnulls(d.vehicle, d.plate, d.home_community_id, d.approval_reason) > 0",
    ),
    ConstraintHeld(
        name="drivers keep their role",
        sentence="Every user with a driver profile has the role driver.",
        table="drivers",
        constraint="drivers_keep_their_role",
        definition=("FOREIGN KEY (user_id) REFERENCES users(id_if_driver)",),
    ),
    Invariant(
        name="no driver without a profile",
        sentence="Every user with the role driver has a driver profile.",
        query="SELECT u.id FROM users u WHERE u.id_if_driver IS NOT NULL AND u.erased_at IS NULL"
        " AND NOT EXISTS (SELECT FROM drivers d WHERE d.user_id = u.id)",
    ),
)
