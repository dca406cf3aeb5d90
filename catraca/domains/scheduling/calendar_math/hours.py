"""Working hours: weekly rules, overrides of single days, public holidays; from local times to moments."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, Literal

from catraca.domains.scheduling.calendar_math.holidays import Holidays, holiday_on
from catraca.domains.scheduling.calendar_math.spans import Span, merge
from catraca.domains.scheduling.calendar_math.zones import epoch_of, has_day, local_time

Minutes = tuple[int, int]
ClosedBy = Literal["override", "holiday", "no_rule"]

# Local days whose shifts can overlap a span, counted from the local dates of its start and end. Before: a
# night shift that starts on the day before ends one day later, and two where the zone skips a date. After: a
# margin for clocks that are set at midnight.
LOCAL_DAYS_BEFORE: Final = 2
LOCAL_DAYS_AFTER: Final = 1
# The same, counted from the UTC dates of its start and end, for every zone. A zone is between UTC-12 and
# UTC+14, so its local date is the UTC date, the one before or the one after.
UTC_DAYS_BEFORE: Final = LOCAL_DAYS_BEFORE + 1
UTC_DAYS_AFTER: Final = LOCAL_DAYS_AFTER + 1


@dataclass(frozen=True, slots=True)
class WeeklyRule:
    """Hours of one weekday (ISO: Monday is 1), in minutes of its local day; from 1440 on, of the next day."""

    weekday: int
    start_minute: int
    end_minute: int
    valid_from: date | None = None
    valid_to: date | None = None

    def is_valid_on(self, day: date) -> bool:
        return (self.valid_from is None or self.valid_from <= day) and (
            self.valid_to is None or day <= self.valid_to
        )


@dataclass(frozen=True, slots=True)
class Hours:
    """When a worker works."""

    time_zone: str
    rules: Sequence[WeeklyRule] = ()
    # Replace the rules of that day; without shifts: a day off.
    overrides: Mapping[date, Collection[Minutes]] = field(default_factory=dict[date, Collection[Minutes]])
    holidays: Holidays | None = None

    def shifts_on(self, day: date) -> list[Minutes]:
        """The shifts that start on a local day, in minutes of it."""
        override = self.overrides.get(day)
        if override is not None:
            return merge(override)
        if self.holidays is not None and holiday_on(self.holidays, day) is not None:
            return []
        weekday = day.isoweekday()
        found = [rule for rule in self.rules if rule.weekday == weekday and rule.is_valid_on(day)]
        return merge([(rule.start_minute, rule.end_minute) for rule in found]) if found else []

    def closed_by(self, day: date) -> ClosedBy | None:
        """Why no shift starts on a local day; None if one does."""
        if self.shifts_on(day):
            return None
        if day in self.overrides:
            return "override"
        is_holiday = self.holidays is not None and holiday_on(self.holidays, day) is not None
        return "holiday" if is_holiday else "no_rule"

    def shifts(self, within: Span) -> list[Span]:
        """The whole shifts that overlap a span, sorted; each starts a grid of slots.

        A clock change may make a shift empty, or let it overlap the next one.
        """
        found: list[Span] = []
        for day in _days_around(self.time_zone, within):
            for start_minute, end_minute in self.shifts_on(day):
                start = epoch_of(self.time_zone, day, start_minute)
                end = epoch_of(self.time_zone, day, end_minute)
                if start < end and start < within[1] and end > within[0]:
                    found.append((start, end))
        # A start in a clock gap is moved behind a later start of that day.
        found.sort()
        return found


# One request computes the shifts of many workers in a few zones.
@lru_cache(maxsize=64)
def _days_around(time_zone: str, within: Span) -> Sequence[date]:
    """The local days whose shifts can overlap the span."""
    first = local_time(time_zone, within[0]).date() - timedelta(days=LOCAL_DAYS_BEFORE)
    last = local_time(time_zone, within[1]).date() + timedelta(days=LOCAL_DAYS_AFTER)
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [day for day in days if has_day(time_zone, day)]
