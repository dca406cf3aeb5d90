"""Retention of second factors that were begun and not confirmed."""

from catraca.domains.people.second_factor import store
from catraca.domains.people.second_factor.model import BEGUN_LIFETIME
from catraca.platform.database import Db

PRUNED_AT_ONCE = 1000


async def prune_begun_factors(db: Db) -> int:
    """Delete those that can no longer be confirmed, a bounded number per call; returns how many."""
    return await store.prune_begun_factors(db, older_than=BEGUN_LIFETIME, limit=PRUNED_AT_ONCE)
