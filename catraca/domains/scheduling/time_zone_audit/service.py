"""Compares stored local times with the local times by the current rules."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from catraca.domains.scheduling.calendar_math.zones import (
    moments_of,
    to_datetime,
    to_seconds,
    wall_clock,
    zone_names,
)
from catraca.domains.scheduling.time_zone_audit.store import AgreedTime, read_upcoming
from catraca.platform.database import Db


@dataclass(frozen=True, slots=True)
class ShiftedAppointment:
    """An appointment at whose moment clocks will not show the agreed local time."""

    agreed: AgreedTime
    # What clocks will show at the stored moment; None: the zone does not exist any more.
    shown: datetime | None
    # The moment of the agreed local time.
    would_start_at: datetime | None

    @property
    def off_by(self) -> timedelta | None:
        """How much later than agreed clocks will show; negative if earlier."""
        return None if self.shown is None else self.shown - self.agreed.local_starts_at


async def find_shifted_appointments(db: Db) -> AsyncIterator[ShiftedAppointment]:
    """Upcoming appointments whose moment is another local time by now."""
    async for agreed in read_upcoming(db):
        if agreed.time_zone not in zone_names():
            yield ShiftedAppointment(agreed, None, None)
            continue
        # From moment to local time: a moment has one local time, but a repeated local time has two moments.
        shown = wall_clock(agreed.time_zone, to_seconds(agreed.starts_at))
        if shown != agreed.local_starts_at:
            moment = moments_of(agreed.time_zone, agreed.local_starts_at)[0]
            yield ShiftedAppointment(agreed, shown, to_datetime(moment))
