"""What happens to figures by the passing of time."""

from catraca.domains.analytics import store
from catraca.domains.analytics.model import KEPT
from catraca.platform.database import Db


async def prune_demand(db: Db) -> int:
    """Remove the figures of hours that nobody compares with any more, a bounded number; answers how many."""
    return await store.prune_demand(db, older_than=KEPT)


async def prune_windows(db: Db) -> int:
    """The same for the windows in which searches were counted, with their alerts."""
    return await store.prune_windows(db, older_than=KEPT)
