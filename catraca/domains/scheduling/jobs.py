"""What time does to appointments, holds and the lines of those who wait."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains.scheduling.service import freeing, holding, moving, telling, waiting
from catraca.domains.scheduling.store import personal
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers

# By then nobody asks any more what became of it.
HOLDS_KEPT_FOR: Final = timedelta(days=1)

fires = TimerHandlers()


@fires(telling.HOLD_DUE)
async def expire_hold(db: Db, hold_id: UUID) -> None:
    await holding.expire_hold(db, hold_id)


@fires(telling.REMINDER_DUE)
async def remind(db: Db, appointment_id: UUID) -> None:
    await moving.remind(db, appointment_id)


def waitlist_timers(offer_ttl: timedelta) -> TimerHandlers:
    fires = TimerHandlers()

    @fires(freeing.TIME_FREED)
    async def offer_freed(db: Db, freed_id: UUID) -> None:
        await waiting.offer_freed(db, freed_id, lasts=offer_ttl)

    @fires(freeing.WAIT_DUE)
    async def look_for(db: Db, entry_id: UUID) -> None:
        await waiting.look_for(db, entry_id)

    return fires


async def prune_holds(db: Db, *, limit: int = 1000) -> int:
    """Drop holds that came to nothing, a while after; answers how many."""
    return await personal.prune_holds(db, older_than=HOLDS_KEPT_FOR, limit=limit)


async def forget_walk_ins(db: Db, *, older_than: timedelta, limit: int = 1000) -> int:
    """Take the names of those who came without an account from appointments of long ago; of how many."""
    return await personal.forget_walk_ins(db, older_than=older_than, limit=limit)
