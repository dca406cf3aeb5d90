"""Expiry and retention of confirmations."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains.geofences.confirmations import service, store
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers

# After that, an expired token is answered like an unknown one.
KEPT_FOR: Final = timedelta(days=1)

fires = TimerHandlers()


@fires(service.CONFIRMATION_DUE)
async def expire_confirmation(db: Db, confirmation_id: UUID) -> None:
    await service.expire_confirmation(db, confirmation_id)


async def prune_confirmations(db: Db, *, limit: int = 1000) -> int:
    """Delete confirmations that expired unused a day ago, at most `limit`; returns how many."""
    return await store.prune(db, older_than=KEPT_FOR, limit=limit)
