"""Every statement on users, drivers and password links.

Whoever changes a person locks the users row first; its driver row and links follow. So no two of these
verbs can wait for each other, and none can slip something in behind an erasure.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import asyncpg

from catraca.domains.people.errors import DriverRoleStays, EmailTaken, HomeCommunityUnknown
from catraca.domains.people.model import (
    Approval,
    Driver,
    Login,
    NewPerson,
    Standing,
    User,
    UserId,
    Verdict,
    fold_email,
)
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import ConstraintHeld, Invariant, Rule

USERS = (
    "SELECT u.id, u.roles, u.name, u.email, u.phone, u.language, u.created_at, u.erased_at,"
    " u.password_hash IS NOT NULL AS has_password, d.user_id IS NOT NULL AS drives, d.vehicle, d.plate,"
    " d.home_community_id, d.approval, d.approval_reason, d.approval_at"
    " FROM users u LEFT JOIN drivers d ON d.user_id = u.id"
)


async def read_standings(db: Db, user_ids: Iterable[UUID]) -> dict[UUID, Standing]:
    """Of those who are known."""
    rows = await db.fetch(
        "SELECT u.id, u.tokens_valid_after, u.erased_at IS NOT NULL AS erased,"
        " d.user_id IS NOT NULL AS drives"
        " FROM users u LEFT JOIN drivers d ON d.user_id = u.id WHERE u.id = ANY ($1::uuid[])",
        list(user_ids),
    )
    return {
        row["id"]: Standing(_moment(row["tokens_valid_after"]), row["erased"], row["drives"]) for row in rows
    }


async def insert_user_if_new(db: Db, user_id: UUID, *, roles: Iterable[str]) -> bool:
    """Whether the person is new; whoever comes second waits for the first and finds their row."""
    # Whichever unique index notices first: naming one would make a race lost on another an error.
    found = await db.fetchval(
        "INSERT INTO users (id, roles) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING true",
        user_id,
        sorted(roles),
    )
    return found is not None


async def insert_driver_if_new(db: Db, user_id: UUID, *, approval: Approval) -> None:
    """Give a person who is not erased the role and a driver's profile, as far as they lack them."""
    await db.execute(
        "WITH person AS ("
        "   UPDATE users SET roles ="
        "     CASE WHEN 'driver' = ANY (roles) THEN roles ELSE roles || 'driver'::text END"
        "   WHERE id = $1 AND erased_at IS NULL RETURNING id)"
        " INSERT INTO drivers (user_id, approval) SELECT id, $2 FROM person ON CONFLICT (user_id) DO NOTHING",
        user_id,
        approval,
    )


async def lock_user(db: Db, user_id: UserId) -> bool:
    """Hold the person against other changes until the transaction ends; False when there is none."""
    found = await db.fetchval("SELECT true FROM users WHERE id = $1 FOR NO KEY UPDATE", user_id)
    return found is not None


async def read_user(db: Db, user_id: UserId) -> User | None:
    row = await db.fetchrow(f"{USERS} WHERE u.id = $1", user_id)
    return None if row is None else _user(row)


async def lock_users_as_they_are(db: Db, user_ids: Iterable[UserId]) -> None:
    """Until the transaction ends nobody changes or erases them; others may hold them like this as well."""
    await db.execute("SELECT FROM users WHERE id = ANY ($1::uuid[]) ORDER BY id FOR SHARE", list(user_ids))


async def read_users(db: Db, user_ids: Iterable[UserId]) -> list[User]:
    rows = await db.fetch(f"{USERS} WHERE u.id = ANY ($1::uuid[])", list(user_ids))
    return [_user(row) for row in rows]


async def find_users(
    db: Db, *, role: str | None, approval: Approval | None, after: UUID | None, limit: int
) -> list[User]:
    """People who are not erased, by id, from the one after `after`."""
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
    return [_user(row) for row in rows]


async def may_drive(db: Db, user_id: UserId) -> bool:
    return await db.fetchval(
        "SELECT EXISTS (SELECT FROM drivers d JOIN users u ON u.id = d.user_id"
        " WHERE d.user_id = $1 AND d.approval = 'approved' AND u.erased_at IS NULL)",
        user_id,
    )


async def who_may_drive(db: Db, user_ids: Iterable[UUID]) -> set[UUID]:
    rows = await db.fetch(
        "SELECT d.user_id FROM drivers d JOIN users u ON u.id = d.user_id"
        " WHERE d.user_id = ANY ($1::uuid[]) AND d.approval = 'approved' AND u.erased_at IS NULL",
        list(user_ids),
    )
    return {row["user_id"] for row in rows}


async def based_among(db: Db, user_ids: Iterable[UUID], community_ids: Iterable[UUID]) -> set[UUID]:
    """Those of the drivers whose home is one of these communities."""
    rows = await db.fetch(
        "SELECT user_id FROM drivers"
        " WHERE user_id = ANY ($1::uuid[]) AND home_community_id = ANY ($2::uuid[])",
        list(user_ids),
        list(community_ids),
    )
    return {row["user_id"] for row in rows}


async def drivers_based_in(db: Db, community_ids: Iterable[UUID], *, limit: int) -> list[UserId]:
    rows = await db.fetch(
        "SELECT user_id FROM drivers WHERE home_community_id = ANY ($1::uuid[]) LIMIT $2",
        list(community_ids),
        limit,
    )
    return [row["user_id"] for row in rows]


async def update_user(db: Db, user: User) -> None:
    """Write the person's own fields; the unique folded e-mail decides who may have an address."""
    try:
        await db.execute(
            "UPDATE users SET name = $2, email = $3, email_folded = $4, phone = $5, language = $6,"
            " updated_at = clock_timestamp() WHERE id = $1",
            user.id,
            user.name,
            user.email,
            None if user.email is None else fold_email(user.email),
            user.phone,
            user.language,
        )
    except asyncpg.UniqueViolationError as error:
        raise EmailTaken from error


async def update_driver(db: Db, user_id: UserId, driver: Driver) -> None:
    """Write the driver's own fields; a foreign key decides what may be a home."""
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


async def set_roles(db: Db, user_id: UserId, roles: Iterable[str]) -> None:
    """Replace the roles; a driver's row holds on to that role."""
    try:
        await db.execute(
            "UPDATE users SET roles = $2, updated_at = clock_timestamp() WHERE id = $1",
            user_id,
            sorted(roles),
        )
    except asyncpg.ForeignKeyViolationError as error:
        raise DriverRoleStays from error


async def revoke_tokens(db: Db, user_id: UserId) -> bool:
    """From now on older tokens count for nothing; False when the person is unknown or erased."""
    found = await db.fetchval(
        "UPDATE users SET tokens_valid_after = clock_timestamp()"
        " WHERE id = $1 AND erased_at IS NULL RETURNING true",
        user_id,
    )
    return found is not None


async def read_login(db: Db, email_folded: str) -> Login | None:
    row = await db.fetchrow(
        "SELECT id, roles, password_hash, clock_timestamp() AS as_of FROM users WHERE email_folded = $1",
        email_folded,
    )
    if row is None:
        return None
    return Login(UserId(row["id"]), tuple(row["roles"]), row["password_hash"], row["as_of"])


async def replace_password_hash(db: Db, user_id: UserId, *, old: str, new: str) -> None:
    """The same password under newer parameters; a password set meanwhile stays."""
    await db.execute(
        "UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2", user_id, old, new
    )


async def set_password(db: Db, user_id: UserId, password_hash: str) -> None:
    await db.execute(
        "UPDATE users SET password_hash = $2, tokens_valid_after = clock_timestamp(),"
        " updated_at = clock_timestamp() WHERE id = $1",
        user_id,
        password_hash,
    )


async def delete_unused_links(db: Db, user_id: UserId) -> None:
    await db.execute("DELETE FROM password_links WHERE user_id = $1 AND used_at IS NULL", user_id)


async def insert_password_link(
    db: Db, user_id: UserId, *, token_sha256: bytes, lifetime: timedelta
) -> datetime:
    """A user has one unused link at a time; answers when this one expires."""
    return await db.fetchval(
        "INSERT INTO password_links (token_sha256, user_id, expires_at)"
        " VALUES ($1, $2, clock_timestamp() + $3::interval) RETURNING expires_at",
        token_sha256,
        user_id,
        lifetime,
    )


async def insert_password_link_if_none(
    db: Db, user_id: UserId, *, token_sha256: bytes, lifetime: timedelta
) -> None:
    """Unless the user has an unused link, or this one was there before."""
    await db.execute(
        "INSERT INTO password_links (token_sha256, user_id, expires_at)"
        " VALUES ($1, $2, clock_timestamp() + $3::interval) ON CONFLICT DO NOTHING",
        token_sha256,
        user_id,
        lifetime,
    )


async def read_password_links(db: Db, user_id: UserId) -> Sequence[Row]:
    return await db.fetch(
        "SELECT created_at, expires_at, used_at FROM password_links WHERE user_id = $1"
        " ORDER BY created_at LIMIT 1000",
        user_id,
    )


async def link_owner(db: Db, token_sha256: bytes) -> Row | None:
    """Whose link it is, while it may still be used; only `use_password_link` decides."""
    return await db.fetchrow(
        "SELECT u.id, u.email_folded FROM password_links l JOIN users u ON u.id = l.user_id"
        " WHERE l.token_sha256 = $1 AND l.used_at IS NULL AND l.expires_at > clock_timestamp()",
        token_sha256,
    )


async def use_password_link(db: Db, token_sha256: bytes) -> bool:
    """True once in a link's life."""
    used = await db.fetchval(
        "UPDATE password_links SET used_at = clock_timestamp()"
        " WHERE token_sha256 = $1 AND used_at IS NULL AND expires_at > clock_timestamp() RETURNING true",
        token_sha256,
    )
    return used is not None


async def prune_password_links(db: Db, *, limit: int) -> int:
    return await db.fetchval(
        "WITH dead AS (SELECT token_sha256 FROM password_links"
        "              WHERE used_at IS NOT NULL OR expires_at <= clock_timestamp()"
        "              LIMIT $1 FOR UPDATE SKIP LOCKED),"
        " gone AS (DELETE FROM password_links l USING dead"
        "          WHERE l.token_sha256 = dead.token_sha256 RETURNING 1)"
        " SELECT count(*) FROM gone",
        limit,
    )


async def erase_user(db: Db, user_id: UserId) -> None:
    """The row stays for what refers to it; it says nothing of the person and lets nobody in."""
    await db.execute(
        "UPDATE users SET name = NULL, email = NULL, email_folded = NULL, phone = NULL, language = DEFAULT,"
        " password_hash = NULL, tokens_valid_after = 'infinity',"
        " erased_at = coalesce(erased_at, clock_timestamp()), updated_at = clock_timestamp() WHERE id = $1",
        user_id,
    )


async def erase_driver(db: Db, user_id: UserId) -> None:
    await db.execute(
        "UPDATE drivers SET vehicle = NULL, plate = NULL, home_community_id = NULL, approval_reason = NULL,"
        " updated_at = clock_timestamp() WHERE user_id = $1",
        user_id,
    )


async def delete_password_links(db: Db, user_id: UserId) -> None:
    await db.execute("DELETE FROM password_links WHERE user_id = $1", user_id)


async def has_users(db: Db) -> bool:
    return await db.fetchval("SELECT EXISTS (SELECT FROM users)")


async def insert_people(db: Db, people: Sequence[NewPerson]) -> set[UUID]:
    """Those who are not there yet; answers who was put in."""
    rows = await db.fetch(
        "INSERT INTO users (id, roles, name, email, email_folded, language)"
        " SELECT id, ARRAY[role], name, email, email_folded, language"
        " FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])"
        "   AS person (id, role, name, email, email_folded, language)"
        # In one order, so that two who want the same addresses cannot wait for each other.
        ' ORDER BY email_folded COLLATE "C" ON CONFLICT DO NOTHING RETURNING id',
        [p.id for p in people],
        [p.role for p in people],
        [p.name for p in people],
        [p.email for p in people],
        [fold_email(p.email) for p in people],
        [p.language for p in people],
    )
    return {row["id"] for row in rows}


async def insert_drivers(db: Db, drivers: Sequence[NewPerson]) -> None:
    await db.executemany(
        "INSERT INTO drivers (user_id, vehicle, plate, approval) VALUES ($1, $2, $3, 'approved')"
        " ON CONFLICT DO NOTHING",
        [(d.id, d.vehicle, d.plate) for d in drivers],
    )


def _moment(value: datetime | None) -> datetime | None:
    # The driver tells every moment with its time zone, but for infinity.
    return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


def _user(row: Row) -> User:
    driver = None
    if row["drives"]:
        driver = Driver(
            vehicle=row["vehicle"],
            plate=row["plate"],
            home_community_id=row["home_community_id"],
            approval=row["approval"],
            approval_reason=row["approval_reason"],
            approval_at=row["approval_at"],
        )
    return User(
        id=UserId(row["id"]),
        roles=tuple(row["roles"]),
        name=row["name"],
        email=row["email"],
        phone=row["phone"],
        language=row["language"],
        created_at=row["created_at"],
        erased_at=row["erased_at"],
        has_password=row["has_password"],
        driver=driver,
    )


# Sent events are kept for a day at least.
TOLD = (
    "SELECT id, aggregate_id FROM outbox WHERE routing_key = 'user.created' AND queue IS NULL UNION ALL"
    " SELECT id, aggregate_id FROM outbox_sent WHERE routing_key = 'user.created' AND queue IS NULL"
    "   AND sent_at > clock_timestamp() - interval '1 day'"
)

INVARIANTS: tuple[Rule, ...] = (
    Invariant(
        number=8,
        name="every newcomer was told of",
        sentence="Whoever came within the last day has their user.created.",
        # People from before there were events have none; the first one who has shows where that ends.
        query=f"WITH told AS ({TOLD})"  # noqa: S608 - our own
        " SELECT u.id FROM users u WHERE u.created_at > clock_timestamp() - interval '1 day'"
        "   AND NOT EXISTS (SELECT FROM told WHERE told.aggregate_id = u.id)"
        "   AND u.created_at >= (SELECT min(f.created_at) FROM users f JOIN outbox_heads h"
        "                        ON h.aggregate_id = f.id)",
    ),
    Invariant(
        number=8,
        name="nobody was told of who did not come",
        sentence="Every user.created has its person.",
        query=f"WITH told AS ({TOLD} ORDER BY id DESC LIMIT 100000)"  # noqa: S608 - our own
        " SELECT id, aggregate_id FROM told"
        " WHERE NOT EXISTS (SELECT FROM users u WHERE u.id = told.aggregate_id)",
    ),
    ConstraintHeld(
        name="one person per e-mail address",
        sentence="No two people have one address, however they write it.",
        table="users",
        constraint="users_email_folded_key",
        definition=("UNIQUE (email_folded)",),
    ),
    ConstraintHeld(
        name="the erased hold nothing",
        sentence="Nothing is kept of an erased person, and no token of theirs counts.",
        table="users",
        constraint="erased_users_hold_nothing",
        definition=("num_nonnulls(name, email, phone, password_hash) = 0", "'infinity'"),
    ),
    ConstraintHeld(
        name="one unused password link per person",
        sentence="A new link replaces the one before it.",
        table="password_links",
        constraint="one_unused_password_link_a_user",
        definition=("(user_id) WHERE (used_at IS NULL)",),
    ),
    Invariant(
        name="no links of the erased",
        sentence="An erased person's password links are gone.",
        query="SELECT l.user_id FROM password_links l JOIN users u ON u.id = l.user_id"
        " WHERE u.erased_at IS NOT NULL",
    ),
    Invariant(
        name="no cars of the erased",
        sentence="An erased driver's vehicle, plate, home and verdict are gone.",
        query="SELECT d.user_id FROM drivers d JOIN users u ON u.id = d.user_id WHERE u.erased_at IS NOT NULL"
        " AND num_nonnulls(d.vehicle, d.plate, d.home_community_id, d.approval_reason) > 0",
    ),
    ConstraintHeld(
        name="drivers keep their role",
        sentence="Whoever has a driver's profile has the role.",
        table="drivers",
        constraint="drivers_keep_their_role",
        definition=("FOREIGN KEY (user_id, drives) REFERENCES users(id, drives)",),
    ),
    Invariant(
        name="no driver without a profile",
        sentence="Whoever has the role has a driver's profile.",
        query="SELECT u.id FROM users u WHERE u.drives AND u.erased_at IS NULL"
        " AND NOT EXISTS (SELECT FROM drivers d WHERE d.user_id = u.id)",
    ),
)
