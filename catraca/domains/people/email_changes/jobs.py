"""Retention of e-mail changes."""

from catraca.domains.people.email_changes import store
from catraca.platform.database import Db

PRUNED_AT_ONCE = 1000


async def prune_email_changes(db: Db) -> int:
    """Delete expired changes, a bounded number per call; returns how many."""
    return await store.prune_changes(db, limit=PRUNED_AT_ONCE)
