"""Statements on passwords and password links."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from catraca.domains.people.credentials.model import ADDRESS_MEMORY, Login
from catraca.domains.people.model import UserId
from catraca.domains.people.store import erased_users_have_no
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Rule
from catraca.platform.database.retention import PRUNED_AT_ONCE, prune_rows


async def read_login(db: Db, email_folded: str) -> Login | None:
    row = await db.fetchrow(
        "SELECT id, roles, password_hash, clock_timestamp() AS as_of FROM users WHERE email_folded = $1",
        email_folded,
    )
    if row is None:
        return None
    return Login(UserId(row["id"]), tuple(row["roles"]), row["password_hash"], row["as_of"])


async def set_password(db: Db, user_id: UserId, password_hash: str) -> None:
    """Store the hash and revoke all older tokens."""
    await db.execute(
        "UPDATE users SET password_hash = $2, tokens_valid_after = clock_timestamp(),"
        " updated_at = clock_timestamp() WHERE id = $1",
        user_id,
        password_hash,
    )


async def replace_password_hash(db: Db, user_id: UserId, *, old: str, new: str) -> None:
    """Store a newer hash of the same password; does nothing if the password has changed meanwhile."""
    await db.execute(
        "UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2", user_id, old, new
    )


async def insert_link(db: Db, user_id: UserId, *, token_sha256: bytes, lifetime: timedelta) -> datetime:
    """A user has one unused link at a time; returns the time at which this one expires."""
    return await db.fetchval(
        "INSERT INTO password_links (token_sha256, user_id, expires_at)"
        " VALUES ($1, $2, clock_timestamp() + $3::interval) RETURNING expires_at",
        token_sha256,
        user_id,
        lifetime,
    )


async def insert_link_if_none(db: Db, user_id: UserId, *, token_sha256: bytes, lifetime: timedelta) -> None:
    """Does nothing if the user has an unused link, or if this link exists already."""
    await db.execute(
        "INSERT INTO password_links (token_sha256, user_id, expires_at)"
        " VALUES ($1, $2, clock_timestamp() + $3::interval) ON CONFLICT DO NOTHING",
        token_sha256,
        user_id,
        lifetime,
    )


async def read_links(db: Db, user_id: UserId) -> Sequence[Row]:
    return await db.fetch(
        "SELECT created_at, expires_at, used_at FROM password_links WHERE user_id = $1"
        " ORDER BY created_at LIMIT 1000",
        user_id,
    )


async def read_link_owner(db: Db, token_sha256: bytes) -> Row | None:
    """The owner of a usable link. Only `use_link` decides whether a link is used."""
    return await db.fetchrow(
        "SELECT u.id, u.email_folded FROM password_links l JOIN users u ON u.id = l.user_id"
        " WHERE l.token_sha256 = $1 AND l.used_at IS NULL AND l.expires_at > clock_timestamp()"
        "   AND access_holds(l.user_id, l.granted_at)",
        token_sha256,
    )


async def use_link(db: Db, token_sha256: bytes) -> bool:
    """True for exactly one call per link."""
    used = await db.fetchval(
        "UPDATE password_links SET used_at = clock_timestamp()"
        " WHERE token_sha256 = $1 AND used_at IS NULL AND expires_at > clock_timestamp()"
        "   AND access_holds(user_id, granted_at) RETURNING true",
        token_sha256,
    )
    return used is not None


async def read_unused_link(db: Db, user_id: UserId) -> bytes | None:
    """The digest of the user's link, if it can be used."""
    return await db.fetchval(
        "SELECT token_sha256 FROM password_links WHERE user_id = $1 AND used_at IS NULL"
        " AND expires_at > clock_timestamp() AND access_holds(user_id, granted_at)",
        user_id,
    )


async def grant_again(db: Db, token_sha256: bytes) -> None:
    """The link outlasts every revocation until now."""
    await db.execute(
        "UPDATE password_links SET granted_at = clock_timestamp() WHERE token_sha256 = $1", token_sha256
    )


async def knows_address(db: Db, email_folded: str, mark: bytes, *, memory: timedelta) -> bool:
    """True if the account has signed in from this address lately; False for an unknown account."""
    return await db.fetchval(
        "SELECT EXISTS (SELECT FROM users u JOIN sign_in_addresses a ON a.user_id = u.id"
        " WHERE u.email_folded = $1 AND a.mark = $2 AND a.seen_at > clock_timestamp() - $3::interval)",
        email_folded,
        mark,
        memory,
    )


async def remember_address(db: Db, user_id: UserId, mark: bytes) -> None:
    """Store the address or date it anew; nothing is stored for an erased user."""
    await db.execute(
        "WITH person AS (SELECT id FROM users WHERE id = $1 AND erased_at IS NULL FOR NO KEY UPDATE)"
        " INSERT INTO sign_in_addresses (user_id, mark) SELECT id, $2 FROM person"
        " ON CONFLICT (user_id, mark) DO UPDATE SET seen_at = clock_timestamp()",
        user_id,
        mark,
    )


async def keep_newest_addresses(db: Db, user_id: UserId, *, count: int) -> None:
    await db.execute(
        "DELETE FROM sign_in_addresses WHERE user_id = $1 AND mark IN"
        " (SELECT mark FROM sign_in_addresses WHERE user_id = $1 ORDER BY seen_at DESC OFFSET $2)",
        user_id,
        count,
    )


async def read_addresses(db: Db, user_id: UserId) -> Sequence[Row]:
    return await db.fetch(
        "SELECT seen_at FROM sign_in_addresses WHERE user_id = $1 ORDER BY seen_at LIMIT 1000", user_id
    )


async def delete_addresses(db: Db, user_id: UserId) -> None:
    await db.execute("DELETE FROM sign_in_addresses WHERE user_id = $1", user_id)


async def prune_sign_in_addresses(db: Db) -> int:
    """Delete addresses without a recent sign-in, a bounded number; returns how many."""
    return await prune_rows(db, "sign_in_addresses", aged_by="seen_at", older_than=ADDRESS_MEMORY)


async def delete_unused_links(db: Db, user_id: UserId) -> None:
    await db.execute("DELETE FROM password_links WHERE user_id = $1 AND used_at IS NULL", user_id)


async def delete_links(db: Db, user_id: UserId) -> None:
    await db.execute("DELETE FROM password_links WHERE user_id = $1", user_id)


async def prune_password_links(db: Db) -> int:
    """Delete used and expired links, a bounded number; returns how many."""
    return await db.fetchval(
        "WITH dead AS (SELECT l.token_sha256 FROM password_links l JOIN users u ON u.id = l.user_id"
        "              WHERE l.used_at IS NOT NULL OR l.expires_at <= clock_timestamp()"
        "                OR u.tokens_valid_after > l.granted_at"
        "              LIMIT $1 FOR UPDATE OF l SKIP LOCKED),"
        " gone AS (DELETE FROM password_links l USING dead"
        "          WHERE l.token_sha256 = dead.token_sha256 RETURNING 1)"
        " SELECT count(*) FROM gone",
        PRUNED_AT_ONCE,
    )


INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="one unused password link per user",
        sentence="A new password link replaces the unused one before it.",
        table="password_links",
        constraint="one_unused_password_link_a_user",
        definition=("(user_id) WHERE (used_at IS NULL)",),
    ),
    erased_users_have_no("password links", "password_links"),
    erased_users_have_no("sign-in addresses", "sign_in_addresses"),
)
