"""Every statement on users, drivers and password links."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from catraca.platform.database import Db, Row


async def tokens_valid_after(db: Db, user_id: UUID) -> Row | None:
    return await db.fetchrow("SELECT tokens_valid_after FROM users WHERE id = $1", user_id)


async def insert_user_if_new(db: Db, user_id: UUID, *, roles: Iterable[str]) -> datetime | None:
    """Whoever comes second finds the first one's row: an id is one person."""
    return await db.fetchval(
        "INSERT INTO users (id, roles) VALUES ($1, $2)"
        " ON CONFLICT (id) DO UPDATE SET id = users.id RETURNING tokens_valid_after",
        user_id,
        sorted(roles),
    )
