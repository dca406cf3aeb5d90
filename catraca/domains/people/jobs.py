"""What happens to people's records by the passing of time."""

from catraca.domains.people import store
from catraca.platform.database import Db


async def prune_password_links(db: Db, *, limit: int = 1000) -> int:
    """Drop links that are used or expired, a bounded number at a time; answers how many."""
    return await store.prune_password_links(db, limit=limit)
