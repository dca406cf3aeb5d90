"""What happens to dead letters by the passing of time."""

from datetime import timedelta

from catraca.domains.dead_letters import store
from catraca.platform.database import Db


async def prune_dead_letters(db: Db, *, older_than: timedelta) -> int:
    """Remove letters nobody dealt with for that long, a bounded number; answers how many."""
    return await store.prune_dead_letters(db, older_than=older_than)
