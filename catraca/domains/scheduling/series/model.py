"""The times of a series. Pure."""

from calendar import monthrange
from dataclasses import dataclass
from typing import Final, Literal

from catraca.domains.scheduling.calendar_math.spans import Seconds
from catraca.domains.scheduling.calendar_math.zones import days_later, wall_clock, zone

Frequency = Literal["day", "week", "two_weeks", "month"]
DAYS: Final[dict[Frequency, int]] = {"day": 1, "week": 7, "two_weeks": 14}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    every: Frequency
    # With the first.
    count: int


def occurrences(time_zone: str, starts: Seconds, recurrence: Recurrence) -> list[Seconds]:
    """Starts at the same local time. Each is computed from the first: a clock change moves only its own."""
    times = range(1, recurrence.count)
    if recurrence.every == "month":
        return [starts, *(_months_later(time_zone, starts, n) for n in times)]
    return [starts, *(days_later(time_zone, starts, DAYS[recurrence.every] * n) for n in times)]


def _months_later(time_zone: str, starts: Seconds, months: int) -> Seconds:
    """On the same day of the month, or on the last day of a shorter month."""
    local = wall_clock(time_zone, starts)
    years, month = divmod(local.month - 1 + months, 12)
    year, month = local.year + years, month + 1
    day = min(local.day, monthrange(year, month)[1])
    return int(local.replace(year=year, month=month, day=day, tzinfo=zone(time_zone)).timestamp())
