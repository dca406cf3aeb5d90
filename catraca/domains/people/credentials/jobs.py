"""Retention of password links."""

from catraca.domains.people.credentials import store
from catraca.platform.database import Db

PRUNED_AT_ONCE = 1000


async def prune_password_links(db: Db) -> int:
    """Delete used and expired links, a bounded number per call; returns how many."""
    return await store.prune_password_links(db, limit=PRUNED_AT_ONCE)
