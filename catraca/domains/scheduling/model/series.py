"""When the appointments of a series are: at the same time on the worker's clocks, every so often. Pure."""

from calendar import monthrange
from typing import Final, Literal, NewType
from uuid import UUID

from catraca.domains.scheduling.model.spans import Seconds
from catraca.domains.scheduling.model.zones import days_later, local_time, zone

SeriesId = NewType("SeriesId", UUID)
Every = Literal["day", "week", "two_weeks", "month"]
DAYS: Final[dict[Every, int]] = {"day": 1, "week": 7, "two_weeks": 14}


def occurrences(time_zone: str, starts: Seconds, every: Every, count: int) -> list[Seconds]:
    """The first is where it is; the others are counted from it, so none inherits what befell another."""
    if every == "month":
        later = [_months_later(time_zone, starts, n) for n in range(1, count)]
    else:
        later = [days_later(time_zone, starts, DAYS[every] * n) for n in range(1, count)]
    return [starts, *later]


def _months_later(time_zone: str, starts: Seconds, months: int) -> Seconds:
    """On the same day of the month, or on the last of one that is shorter."""
    local = local_time(time_zone, starts).replace(fold=0)
    years, month = divmod(local.month - 1 + months, 12)
    year, month = local.year + years, month + 1
    day = min(local.day, monthrange(year, month)[1])
    return int(local.replace(year=year, month=month, day=day, tzinfo=zone(time_zone)).timestamp())
