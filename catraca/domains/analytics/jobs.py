"""Retention of analytics."""

from catraca.domains.analytics import store
from catraca.domains.analytics.model import RETENTION
from catraca.platform.database import Db


async def prune_demand(db: Db) -> int:
    """Delete old demand, a bounded number of rows per call; returns how many."""
    return await store.prune_demand(db, older_than=RETENTION)


async def prune_windows(db: Db) -> int:
    """Delete old windows with their alerts, a bounded number per call; returns how many."""
    return await store.prune_windows(db, older_than=RETENTION)
