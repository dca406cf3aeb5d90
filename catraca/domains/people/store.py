"""Statements that read and lock users, with their driver profiles.

Every change of a user locks the users row first; the driver row and password links follow. So changes cannot
deadlock, and none can write behind an erasure.
"""

from collections.abc import Iterable

from catraca.domains.people.model import Driver, User, UserId
from catraca.platform.database import Db, Row
from catraca.platform.database.invariants import Invariant

USERS = (
    "SELECT u.id, u.roles, u.name, u.email, u.phone, u.language, u.created_at, u.erased_at,"
    " u.password_hash IS NOT NULL AS has_password, d.user_id IS NOT NULL AS drives, d.vehicle, d.plate,"
    " d.home_community_id, d.approval, d.approval_reason, d.approval_at,"
    " (SELECT c.email FROM email_changes c WHERE c.user_id = u.id"
    "  AND c.expires_at > clock_timestamp()) AS email_pending"
    " FROM users u LEFT JOIN drivers d ON d.user_id = u.id"
)


async def read_user(db: Db, user_id: UserId) -> User | None:
    row = await db.fetchrow(f"{USERS} WHERE u.id = $1", user_id)
    return None if row is None else user_of(row)


async def read_users(db: Db, user_ids: Iterable[UserId]) -> list[User]:
    rows = await db.fetch(f"{USERS} WHERE u.id = ANY ($1::uuid[])", list(user_ids))
    return [user_of(row) for row in rows]


async def lock_user(db: Db, user_id: UserId) -> bool:
    """Lock the row against other changes until the transaction ends; False if there is no such user."""
    found = await db.fetchval("SELECT true FROM users WHERE id = $1 FOR NO KEY UPDATE", user_id)
    return found is not None


async def lock_users_shared(db: Db, user_ids: Iterable[UserId]) -> None:
    """Prevent changes and erasure until the transaction ends; many transactions can hold this lock."""
    await db.execute("SELECT FROM users WHERE id = ANY ($1::uuid[]) ORDER BY id FOR SHARE", list(user_ids))


def user_of(row: Row) -> User:
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
        email_pending=row["email_pending"],
        driver=driver,
    )


def erased_users_have_no(what: str, table: str) -> Invariant:
    return Invariant(
        name=f"erased users have no {what}",
        sentence=f"No row of an erased user is in the table {table}.",
        query=f"SELECT t.user_id FROM {table} t JOIN users u ON u.id = t.user_id"  # noqa: S608 - our own
        " WHERE u.erased_at IS NOT NULL",
    )
