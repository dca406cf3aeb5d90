"""What a fault says beyond its name, so that somebody can do something about it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal

from catraca.domains.scheduling.model.days_off import holiday_on
from catraca.domains.scheduling.model.diary import Agenda, Diary, Fault
from catraca.domains.scheduling.model.hours import ClosedBy
from catraca.domains.scheduling.model.spans import Seconds, Span, covers
from catraca.domains.scheduling.model.zones import epoch_of, is_skipped, local_time, same_on_clocks

DAY: Seconds = 86_400
Oddity = Literal["clocks_skip", "clocks_repeat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDay:
    """What is worked on a local day, as time that passes: shifts that touch it, whole."""

    day: date
    shifts: list[Span]
    closed_by: ClosedBy | Literal["clocks"] | None
    holiday: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Of one fault; what does not belong to it is None."""

    earliest: Seconds | None = None
    latest: Seconds | None = None
    day: LocalDay | None = None
    # The times before and after that are on the grid.
    before: Seconds | None = None
    after: Seconds | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What is odd about a time at a worker's place: what clocks show there, and when."""

    code: Oddity
    local: datetime
    moments: tuple[Seconds, ...]


def details_of(fault: Fault, diary: Diary, agenda: Agenda, starts: Seconds, *, language: str) -> Details:
    """Who is in the way, and why, is not among them: strangers read this."""
    tell = _TELLERS.get(fault)
    return tell(diary, agenda, starts, language) if tell else Details()


def _too_soon(diary: Diary, agenda: Agenda, starts: Seconds, language: str) -> Details:
    return Details(earliest=diary.earliest)


def _beyond_horizon(diary: Diary, agenda: Agenda, starts: Seconds, language: str) -> Details:
    return Details(latest=diary.latest(agenda) - 1)


def _outside_hours(diary: Diary, agenda: Agenda, starts: Seconds, language: str) -> Details:
    hours, name = agenda.hours, agenda.worker.time_zone
    day = local_time(name, starts).date()
    shifts = hours.shifts((epoch_of(name, day, 0), epoch_of(name, day, 1440)))
    closed_by = hours.closed_by(day)
    celebrated = hours.holidays and closed_by == "holiday" and holiday_on(hours.holidays, day, language)
    return Details(
        day=LocalDay(
            day=day,
            shifts=shifts,
            closed_by="clocks" if closed_by is None and not shifts else closed_by,
            holiday=celebrated or None,
        )
    )


def _off_grid(diary: Diary, agenda: Agenda, starts: Seconds, language: str) -> Details:
    def is_long_enough(point: Seconds) -> bool:
        return covers(agenda.open_hours, point, point + diary.duration)

    before = agenda.grid((starts - DAY, starts), diary.step, backwards=True)
    after = agenda.grid((starts, starts + DAY), diary.step)
    return Details(
        before=next(filter(is_long_enough, before), None), after=next(filter(is_long_enough, after), None)
    )


_TELLERS: Mapping[Fault, Callable[[Diary, Agenda, Seconds, str], Details]] = {
    "too_soon": _too_soon,
    "beyond_horizon": _beyond_horizon,
    "outside_hours": _outside_hours,
    "off_grid": _off_grid,
}


def note_on(time_zone: str, starts: Seconds, meant: datetime) -> Note | None:
    """Whether clocks there show that time twice; or never, if what was `meant` is a time they skip."""
    local = meant.replace(tzinfo=None)
    if is_skipped(time_zone, local) and starts in same_on_clocks(time_zone, local):
        return Note("clocks_skip", local, (starts,))
    shown = local_time(time_zone, starts).replace(tzinfo=None)
    moments = same_on_clocks(time_zone, shown)
    return Note("clocks_repeat", shown, moments) if len(moments) > 1 else None
