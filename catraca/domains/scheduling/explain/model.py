"""What helps to act on a conflict, and clock changes at a time. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from catraca.domains.scheduling.availability.model import Agenda, Conflict, ServiceSchedule
from catraca.domains.scheduling.calendar_math.holidays import holiday_on
from catraca.domains.scheduling.calendar_math.hours import ClosedBy
from catraca.domains.scheduling.calendar_math.spans import DAY, Seconds, Span, covers
from catraca.domains.scheduling.calendar_math.zones import (
    MINUTES_A_DAY,
    epoch_of,
    is_skipped,
    local_time,
    moments_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDay:
    """The shifts that overlap a local day, whole."""

    day: date
    shifts: list[Span]
    closed_by: ClosedBy | Literal["clocks"] | None
    holiday: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Details of one conflict; each kind of conflict has its own fields."""

    earliest: Seconds | None = None
    latest: Seconds | None = None
    day: LocalDay | None = None
    # The grid points before and after.
    before: Seconds | None = None
    after: Seconds | None = None


@dataclass(frozen=True, slots=True)
class ClockNote:
    """Clocks at the worker's place skip or repeat this local time."""

    code: Literal["clocks_skip", "clocks_repeat"]
    local: datetime
    moments: tuple[Seconds, ...]


def details_of(
    conflict: Conflict, schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, *, language: str
) -> Details:
    """Without the bookings that are in the way: every caller may read these details."""
    describe = _DETAILS.get(conflict)
    return describe(schedule, agenda, starts, language) if describe else Details()


def _too_soon(schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, language: str) -> Details:
    return Details(earliest=schedule.earliest)


def _beyond_horizon(schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, language: str) -> Details:
    return Details(latest=schedule.latest(agenda) - 1)


def _outside_hours(schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, language: str) -> Details:
    hours, zone_name = agenda.hours, agenda.worker.time_zone
    day = local_time(zone_name, starts).date()
    shifts = hours.shifts((epoch_of(zone_name, day, 0), epoch_of(zone_name, day, MINUTES_A_DAY)))
    closed_by = hours.closed_by(day)
    holiday = hours.holidays and closed_by == "holiday" and holiday_on(hours.holidays, day, language)
    return Details(
        day=LocalDay(
            day=day,
            shifts=shifts,
            closed_by="clocks" if closed_by is None and not shifts else closed_by,
            holiday=holiday or None,
        )
    )


def _off_grid(schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, language: str) -> Details:
    def fits(point: Seconds) -> bool:
        return covers(agenda.open_hours, point, point + schedule.duration)

    before = agenda.grid((starts - DAY, starts), schedule.step, backwards=True)
    after = agenda.grid((starts, starts + DAY), schedule.step)
    return Details(before=next(filter(fits, before), None), after=next(filter(fits, after), None))


_DETAILS: Mapping[Conflict, Callable[[ServiceSchedule, Agenda, Seconds, str], Details]] = {
    "too_soon": _too_soon,
    "beyond_horizon": _beyond_horizon,
    "outside_hours": _outside_hours,
    "off_grid": _off_grid,
}


def clock_note(time_zone: str, starts: Seconds, requested: datetime) -> ClockNote | None:
    """A note if clocks there repeat the time, or if the `requested` local time is one that they skip."""
    local = requested.replace(tzinfo=None)
    if is_skipped(time_zone, local) and starts in moments_of(time_zone, local):
        return ClockNote("clocks_skip", local, (starts,))
    shown = local_time(time_zone, starts).replace(tzinfo=None)
    moments = moments_of(time_zone, shown)
    return ClockNote("clocks_repeat", shown, moments) if len(moments) > 1 else None
