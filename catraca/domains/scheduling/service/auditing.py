"""Governments move clocks: which appointments are no longer at the time that was agreed on."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from catraca.domains.scheduling.model.zones import at, local_time, moment_of, same_on_clocks, zone_names
from catraca.domains.scheduling.store.auditing import Agreed, upcoming_agreed
from catraca.platform.database import Db


@dataclass(frozen=True, slots=True)
class Moved:
    """An appointment at whose moment clocks will show something else, by the rules of now."""

    agreed: Agreed
    # None: there is no such zone any more.
    shown: datetime | None
    # When the time agreed on will be.
    would_start_at: datetime | None

    @property
    def off_by(self) -> timedelta | None:
        """How much later than agreed clocks will show; negative when earlier."""
        return None if self.shown is None else self.shown - self.agreed.local_starts_at


async def moved_by_rules_of_time(db: Db) -> AsyncIterator[Moved]:
    """Upcoming appointments whose local time is another moment by now than the one that was stored."""
    async for agreed in upcoming_agreed(db):
        if agreed.time_zone not in zone_names():
            yield Moved(agreed, None, None)
            continue
        shown = local_time(agreed.time_zone, moment_of(agreed.starts_at)).replace(tzinfo=None, fold=0)
        # Asked this way round there is one answer, also where clocks show a time twice.
        if shown != agreed.local_starts_at:
            moment = same_on_clocks(agreed.time_zone, agreed.local_starts_at)[0]
            yield Moved(agreed, shown, at(moment))
