"""Statements on e-mail addresses and their changes."""

from datetime import timedelta
from uuid import UUID

import asyncpg

from catraca.domains.people.email_changes.errors import EmailTaken
from catraca.domains.people.email_changes.model import EmailChange
from catraca.domains.people.model import UserId
from catraca.domains.people.store import erased_users_have_no
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Rule
from catraca.platform.database.retention import prune_rows
from catraca.platform.lines import fold_email


async def put_change(db: Db, user_id: UserId, change_id: UUID, *, email: str, lifetime: timedelta) -> None:
    """A user has one change at a time; this one replaces it."""
    await db.execute(
        "INSERT INTO email_changes (user_id, id, email, expires_at)"
        " VALUES ($1, $2, $3, clock_timestamp() + $4::interval)"
        " ON CONFLICT (user_id) DO UPDATE SET id = excluded.id, email = excluded.email, tries = 0,"
        "   created_at = clock_timestamp(), expires_at = excluded.expires_at",
        user_id,
        change_id,
        email,
        lifetime,
    )


async def read_change(db: Db, user_id: UserId, *, tries: int) -> EmailChange | None:
    row = await db.fetchrow(
        "SELECT id, email, expires_at > clock_timestamp() AND tries < $2 AS is_open"
        " FROM email_changes WHERE user_id = $1",
        user_id,
        tries,
    )
    return None if row is None else _change_of(row)


async def count_try(db: Db, user_id: UserId, *, tries: int) -> EmailChange | None:
    """Count one try of the code; None if there is no change, or no try left."""
    row = await db.fetchrow(
        "UPDATE email_changes SET tries = tries + 1"
        " WHERE user_id = $1 AND tries < $2 AND expires_at > clock_timestamp()"
        " RETURNING id, email, true AS is_open",
        user_id,
        tries,
    )
    return None if row is None else _change_of(row)


async def take_change(db: Db, user_id: UserId, *, change_id: UUID | None = None) -> str | None:
    """Delete the change and return its address; None if it expired, or `change_id` was replaced."""
    return await db.fetchval(
        "DELETE FROM email_changes WHERE user_id = $1 AND ($2::uuid IS NULL OR id = $2)"
        " AND expires_at > clock_timestamp() RETURNING email",
        user_id,
        change_id,
    )


async def delete_change(db: Db, user_id: UserId) -> None:
    await db.execute("DELETE FROM email_changes WHERE user_id = $1", user_id)


async def set_email(db: Db, user_id: UserId, email: str | None) -> None:
    """Write the address; the unique folded form decides whether it is free."""
    try:
        await db.execute(
            "UPDATE users SET email = $2, email_folded = $3, updated_at = clock_timestamp() WHERE id = $1",
            user_id,
            email,
            None if email is None else fold_email(email),
        )
    except asyncpg.UniqueViolationError as error:
        raise EmailTaken from error


async def read_other_owner(db: Db, user_id: UserId, *, email: str) -> Row | None:
    """The user, other than this one, whose address this is."""
    return await db.fetchrow(
        "SELECT id, language FROM users WHERE email_folded = $2 AND id <> $1", user_id, fold_email(email)
    )


async def prune_email_changes(db: Db) -> int:
    """Delete expired changes, a bounded number; returns how many."""
    return await prune_rows(db, "email_changes", aged_by="expires_at")


def _change_of(row: Row) -> EmailChange:
    return EmailChange(id=row["id"], email=row["email"], is_open=row["is_open"])


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="codes of e-mail changes have few tries",
        sentence="The code of an e-mail change can be tried five times.",
        table="email_changes",
        constraint="email_codes_have_few_tries",
        definition=("tries >= 0", "tries <= 5"),
    ),
    erased_users_have_no("e-mail change", "email_changes"),
)
