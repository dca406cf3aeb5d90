"""What time does to confirmations."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains.geofences import store
from catraca.domains.geofences.service import outcomes
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers

# By then whoever comes back with one can only be told the same as of one that never was.
KEPT_FOR: Final = timedelta(days=1)

fires = TimerHandlers()


@fires(outcomes.CONFIRMATION_DUE)
async def expire_confirmation(db: Db, confirmation_id: UUID) -> None:
    await outcomes.expire_confirmation(db, confirmation_id)


async def prune_confirmations(db: Db, *, limit: int = 1000) -> int:
    """Drop confirmations that nobody used, a while after they expired; answers how many."""
    return await store.prune(db, older_than=KEPT_FOR, limit=limit)
