"""Statements on users."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import UUID

import asyncpg

from catraca.domains.people.accounts.errors import DriverRoleStays
from catraca.domains.people.accounts.model import NewUser, Standing
from catraca.domains.people.model import Approval, User, UserId
from catraca.domains.people.store import USERS, user_of
from catraca.platform.database import Db
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule
from catraca.platform.lines import fold_email


async def read_standings(db: Db, user_ids: Iterable[UUID]) -> dict[UUID, Standing]:
    """By id; unknown users are left out."""
    rows = await db.fetch(
        "SELECT u.id, u.tokens_valid_after, u.erased_at IS NOT NULL AS erased,"
        # Not a join: while tables are small, its plan may be to read all drivers, and is kept as they grow.
        " (SELECT true FROM drivers WHERE user_id = u.id) IS NOT NULL AS drives FROM users u"
        # In a subquery, which hides the array's length: else PostgreSQL plans this anew for each call.
        " WHERE u.id = ANY (ARRAY(SELECT unnest($1::uuid[])))",
        list(user_ids),
    )
    return {
        row["id"]: Standing(_with_zone(row["tokens_valid_after"]), row["erased"], row["drives"])
        for row in rows
    }


def _with_zone(value: datetime | None) -> datetime | None:
    # asyncpg returns infinity without a time zone.
    return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


async def insert_user_if_new(db: Db, user_id: UUID, *, roles: Iterable[str]) -> bool:
    """True if this call inserted the user. A second transaction waits for the first and finds its row."""
    # No unique index is named: a race lost on another index would be an error.
    found = await db.fetchval(
        "INSERT INTO users (id, roles) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true",
        user_id,
        sorted(roles),
    )
    return found is not None


async def insert_users(db: Db, users: Sequence[NewUser]) -> set[UUID]:
    """Insert the users whose id and e-mail are free; returns the ids of those inserted."""
    rows = await db.fetch(
        "INSERT INTO users (id, roles, name, email, email_folded, language)"
        " SELECT id, ARRAY[role], name, email, email_folded, language"
        " FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])"
        "   AS person (id, role, name, email, email_folded, language)"
        # A fixed order, so that two transactions with the same addresses cannot deadlock.
        ' ORDER BY email_folded COLLATE "C" ON CONFLICT DO NOTHING RETURNING id',
        [user.id for user in users],
        [user.role for user in users],
        [user.name for user in users],
        [user.email for user in users],
        [fold_email(user.email) for user in users],
        [user.language for user in users],
    )
    return {row["id"] for row in rows}


async def has_users(db: Db) -> bool:
    return await db.fetchval("SELECT EXISTS (SELECT FROM users)")


async def find_users(
    db: Db, *, role: str | None, approval: Approval | None, after: UUID | None, limit: int
) -> list[User]:
    """Users who are not erased, by id, starting behind `after`."""
    rows = await db.fetch(
        f"{USERS} WHERE u.erased_at IS NULL"
        " AND ($1::text IS NULL OR u.roles @> ARRAY[$1])"
        " AND ($2::text IS NULL OR d.approval = $2)"
        " AND ($3::uuid IS NULL OR u.id > $3)"
        " ORDER BY u.id LIMIT $4",
        role,
        approval,
        after,
        limit,
    )
    return [user_of(row) for row in rows]


async def update_user(db: Db, user: User) -> None:
    """Write the user's own fields, except the e-mail address (`email_changes`)."""
    await db.execute(
        "UPDATE users SET name = $2, phone = $3, language = $4, updated_at = clock_timestamp() WHERE id = $1",
        user.id,
        user.name,
        user.phone,
        user.language,
    )


async def set_roles(db: Db, user_id: UserId, roles: Iterable[str]) -> None:
    """Replace the roles; the foreign key of the driver profile keeps the role driver."""
    try:
        await db.execute(
            "UPDATE users SET roles = $2, updated_at = clock_timestamp() WHERE id = $1",
            user_id,
            sorted(roles),
        )
    except asyncpg.ForeignKeyViolationError as error:
        raise DriverRoleStays from error


async def revoke_tokens(db: Db, user_id: UserId) -> bool:
    """Invalidate all older tokens; False if the user is unknown or erased."""
    found = await db.fetchval(
        "UPDATE users SET tokens_valid_after = clock_timestamp()"
        " WHERE id = $1 AND erased_at IS NULL RETURNING true",
        user_id,
    )
    return found is not None


async def erase_user(db: Db, user_id: UserId) -> None:
    """Empty the row and revoke all tokens for ever; the row stays for the rows that refer to it."""
    await db.execute(
        "UPDATE users SET name = NULL, email = NULL, email_folded = NULL, phone = NULL, language = DEFAULT,"
        " password_hash = NULL, tokens_valid_after = 'infinity',"
        " erased_at = coalesce(erased_at, clock_timestamp()), updated_at = clock_timestamp() WHERE id = $1",
        user_id,
    )


# Sent events are kept for at least a day.
CREATED_EVENTS = (
    "SELECT id, aggregate_id FROM outbox WHERE routing_key = 'user.created' AND queue IS NULL UNION ALL"
    " SELECT id, aggregate_id FROM outbox_sent WHERE routing_key = 'user.created' AND queue IS NULL"
    "   AND sent_at > clock_timestamp() - interval '1 day'"
)

INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        number=8,
        name="every new user has a user.created event",
        sentence="Every user of the last day has a user.created event.",
        # Users older than the first event have none; the first user with an event marks that time.
        query=f"WITH event AS ({CREATED_EVENTS})"  # noqa: S608 - our own
        " SELECT u.id FROM users u WHERE u.created_at > clock_timestamp() - interval '1 day'"
        "   AND NOT EXISTS (SELECT FROM event WHERE event.aggregate_id = u.id)"
        "   AND u.created_at >= (SELECT min(f.created_at) FROM users f JOIN outbox_heads h"
        "                        ON h.aggregate_id = f.id)",
    ),
    Invariant(
        number=8,
        name="every user.created event has its user",
        sentence="No user.created event is about a user who does not exist.",
        query=f"WITH event AS ({CREATED_EVENTS} ORDER BY id DESC LIMIT 100000)"  # noqa: S608 - our own
        " SELECT id, aggregate_id FROM event"
        " WHERE NOT EXISTS (SELECT FROM users u WHERE u.id = event.aggregate_id)",
    ),
    ConstraintHeld(
        name="one user per e-mail address",
        sentence="No two users have the same address, in any spelling.",
        table="users",
        constraint="users_email_folded_key",
        definition=("UNIQUE (email_folded)",),
    ),
    ConstraintHeld(
        name="erased users are empty",
        sentence="An erased user has no personal data and no valid token.",
        table="users",
        constraint="erased_users_hold_nothing",
        definition=("num_nonnulls(name, email, phone, password_hash) = 0", "'infinity'"),
    ),
)
