"""Retention of password links and of the addresses of sign-ins."""

from catraca.domains.people.credentials import store
from catraca.domains.people.credentials.model import ADDRESS_MEMORY
from catraca.platform.database import Db

PRUNED_AT_ONCE = 1000


async def prune_password_links(db: Db) -> int:
    """Delete used and expired links, a bounded number per call; returns how many."""
    return await store.prune_password_links(db, limit=PRUNED_AT_ONCE)


async def prune_sign_in_addresses(db: Db) -> int:
    """Delete addresses without a recent sign-in, a bounded number per call; returns how many."""
    return await store.prune_addresses(db, older_than=ADDRESS_MEMORY, limit=PRUNED_AT_ONCE)
