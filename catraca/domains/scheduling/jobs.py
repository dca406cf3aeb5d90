"""Timers of scheduling, and what the housekeeper deletes and erases."""

from datetime import timedelta
from uuid import UUID

from catraca.domains.scheduling.appointments.service import HOLD_DUE, REMINDER_DUE
from catraca.domains.scheduling.booking import service as booking
from catraca.domains.scheduling.freed_time.service import TIME_FREED, WAIT_DUE
from catraca.domains.scheduling.holds import service as holds
from catraca.domains.scheduling.holds.service import prune_holds
from catraca.domains.scheduling.personal_data import service as personal_data
from catraca.domains.scheduling.shared.model import ClientLimits
from catraca.domains.scheduling.waitlist import service as waitlist
from catraca.platform.database import Db
from catraca.platform.database.timers import TimerHandlers

__all__ = ["erase_walk_ins", "prune_holds", "scheduling_timers"]


def scheduling_timers(*, offer_ttl: timedelta, limits: ClientLimits) -> TimerHandlers:
    """`offer_ttl`: how long an offer to a waitlist entry is open."""
    fires = TimerHandlers()
    fires(HOLD_DUE)(holds.expire_hold)
    fires(REMINDER_DUE)(booking.remind)

    @fires(WAIT_DUE)
    async def search_for_entry(db: Db, entry_id: UUID) -> None:
        await waitlist.search_for_entry(db, entry_id, limits=limits)

    @fires(TIME_FREED)
    async def offer_freed_time(db: Db, freed_id: UUID) -> None:
        await waitlist.offer_freed_time(db, freed_id, expires_in=offer_ttl, limits=limits)

    return fires


async def erase_walk_ins(db: Db, *, older_than: timedelta, limit: int = 1000) -> int:
    """Erase the names of clients without an account from old appointments; returns how many."""
    return await personal_data.erase_walk_ins(db, older_than=older_than, limit=limit)
