"""When a worker works: weekly rules, days that are otherwise, public holidays; from clocks to moments."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Literal

from catraca.domains.scheduling.model.days_off import Holidays, holiday_on
from catraca.domains.scheduling.model.spans import Span, merge
from catraca.domains.scheduling.model.zones import epoch_of, has_day, local_time

Minutes = tuple[int, int]
ClosedBy = Literal["override", "holiday", "no_rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Hours of one weekday (ISO: Monday is 1), in minutes of its local day; past 1440 into the next."""

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
    """All that says when somebody works."""

    time_zone: str
    rules: Sequence[Rule] = ()
    # A day in here has these hours and no others; none: a day off.
    overrides: Mapping[date, Collection[Minutes]] = field(default_factory=dict[date, Collection[Minutes]])
    holidays: Holidays | None = None

    def shifts_on(self, day: date) -> list[Minutes]:
        """What is worked of the shifts that begin on a local day, in its minutes."""
        override = self.overrides.get(day)
        if override is not None:
            return merge(override)
        if self.holidays is not None and holiday_on(self.holidays, day) is not None:
            return []
        weekday = day.isoweekday()
        found = [rule for rule in self.rules if rule.weekday == weekday and rule.is_valid_on(day)]
        return merge([(rule.start_minute, rule.end_minute) for rule in found]) if found else []

    def closed_by(self, day: date) -> ClosedBy | None:
        """What keeps shifts from beginning on a local day; None when some do."""
        if self.shifts_on(day):
            return None
        if day in self.overrides:
            return "override"
        is_holiday = self.holidays is not None and holiday_on(self.holidays, day) is not None
        return "holiday" if is_holiday else "no_rule"

    def shifts(self, within: Span) -> list[Span]:
        """The shifts that touch a stretch of time, whole and in order, each beginning a grid of its own.

        A clock set back or forth may empty one, or let it overlap with the next.
        """
        found: list[Span] = []
        for day in _days(self.time_zone, within):
            for start_minute, end_minute in self.shifts_on(day):
                start = epoch_of(self.time_zone, day, start_minute)
                end = epoch_of(self.time_zone, day, end_minute)
                if start < end and start < within[1] and end > within[0]:
                    found.append((start, end))
        # Where a time does not exist, an earlier one of that day may come later.
        found.sort()
        return found


# One question is asked of many workers in the same few zones.
@lru_cache(maxsize=64)
def _days(time_zone: str, within: Span) -> Sequence[date]:
    """The local days whose shifts may touch it: one from the day before may last into the day after."""
    first = local_time(time_zone, within[0]).date() - timedelta(days=2)
    last = local_time(time_zone, within[1]).date() + timedelta(days=1)
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [day for day in days if has_day(time_zone, day)]
