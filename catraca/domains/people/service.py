"""Use cases on people. Each takes an open transaction and never commits."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from catraca.domains.people import store
from catraca.platform.database import Db


async def ensure_user(db: Db, user_id: UUID, *, roles: Iterable[str]) -> datetime | None:
    """Make the person on first use; answers since when their tokens count. Safe to repeat and to race."""
    known = await store.tokens_valid_after(db, user_id)
    if known is not None:
        return known["tokens_valid_after"]
    return await store.insert_user_if_new(db, user_id, roles=roles)
