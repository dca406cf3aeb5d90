"""Statements on second factors and recovery codes."""

from collections.abc import Sequence
from datetime import timedelta

from catraca.domains.people.model import UserId
from catraca.domains.people.second_factor.model import BEGUN_LIFETIME, Factor
from catraca.domains.people.store import erased_users_have_no
from catraca.platform.database import Db
from catraca.platform.database.invariants import ConstraintHeld, Rule
from catraca.platform.database.retention import prune_rows


async def begin_factor(db: Db, user_id: UserId, *, sealed_secret: bytes) -> bool:
    """Store the secret of a factor to confirm; it replaces one begun before. False if a factor is on."""
    begun = await db.fetchval(
        "INSERT INTO second_factors (user_id, secret) VALUES ($1, $2)"
        " ON CONFLICT (user_id) DO UPDATE"
        "   SET secret = excluded.secret, created_at = clock_timestamp(), last_step = 0"
        "   WHERE second_factors.confirmed_at IS NULL RETURNING true",
        user_id,
        sealed_secret,
    )
    return begun is not None


async def read_factor(db: Db, user_id: UserId, *, begun_lifetime: timedelta) -> Factor | None:
    row = await db.fetchrow(
        "SELECT secret, confirmed_at, clock_timestamp() AS as_of,"
        " confirmed_at IS NULL AND created_at <= clock_timestamp() - $2::interval AS is_stale,"
        " (SELECT count(*) FROM recovery_codes r WHERE r.user_id = f.user_id) AS codes"
        " FROM second_factors f WHERE user_id = $1",
        user_id,
        begun_lifetime,
    )
    if row is None:
        return None
    return Factor(
        sealed_secret=row["secret"],
        confirmed_at=row["confirmed_at"],
        is_stale=row["is_stale"],
        recovery_codes_left=row["codes"],
        as_of=row["as_of"],
    )


async def turn_on(db: Db, user_id: UserId, *, sealed_secret: bytes, step: int) -> bool:
    """Confirm the factor with this secret; False if it is on already, or was begun anew."""
    found = await db.fetchval(
        "UPDATE second_factors SET confirmed_at = clock_timestamp(), last_step = $3"
        " WHERE user_id = $1 AND secret = $2 AND confirmed_at IS NULL RETURNING true",
        user_id,
        sealed_secret,
        step,
    )
    return found is not None


async def use_step(db: Db, user_id: UserId, step: int) -> bool:
    """True for one call per time step; False for a step before the last used one."""
    used = await db.fetchval(
        "UPDATE second_factors SET last_step = $2"
        " WHERE user_id = $1 AND confirmed_at IS NOT NULL AND last_step < $2 RETURNING true",
        user_id,
        step,
    )
    return used is not None


async def use_recovery_code(db: Db, user_id: UserId, digest: bytes) -> bool:
    """True for one call per code."""
    used = await db.fetchval(
        "DELETE FROM recovery_codes WHERE user_id = $1 AND digest = $2 RETURNING true", user_id, digest
    )
    return used is not None


async def delete_recovery_codes(db: Db, user_id: UserId) -> None:
    await db.execute("DELETE FROM recovery_codes WHERE user_id = $1", user_id)


async def insert_recovery_codes(db: Db, user_id: UserId, digests: Sequence[bytes]) -> None:
    await db.execute(
        "INSERT INTO recovery_codes (user_id, digest) SELECT $1, unnest($2::bytea[])", user_id, list(digests)
    )


async def delete_factor(db: Db, user_id: UserId) -> bool:
    """Its recovery codes are deleted with it; True if a factor was on."""
    was_on = await db.fetchval(
        "DELETE FROM second_factors WHERE user_id = $1 RETURNING confirmed_at IS NOT NULL", user_id
    )
    return was_on is True


async def prune_begun_factors(db: Db) -> int:
    """Delete factors that can no longer be confirmed, a bounded number; returns how many."""
    return await prune_rows(
        db, "second_factors", aged_by="created_at", older_than=BEGUN_LIFETIME, only="confirmed_at IS NULL"
    )


INVARIANTS: tuple[Rule, ...] = (
    erased_users_have_no("second factor", "second_factors"),
    ConstraintHeld(
        name="recovery codes belong to a second factor",
        sentence="Recovery codes are deleted with their second factor.",
        table="recovery_codes",
        constraint="recovery_codes_have_a_factor",
        definition=("REFERENCES second_factors(user_id) ON DELETE CASCADE",),
    ),
)
