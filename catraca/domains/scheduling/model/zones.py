"""Local time: always by the `tzdata` package, so that all machines compute alike and the version is known.

Where clocks skip an hour, a time that does not exist is as far after the gap as it is into it; where they
repeat one, the first is meant (`fold=0`).
"""

from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import tzdata

from catraca.domains.scheduling.model.spans import Seconds

TZDATA_VERSION = tzdata.IANA_VERSION
MINUTES_A_DAY = 1440


@cache
def zone_names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


@cache
def zone(name: str) -> ZoneInfo:
    """The zone of one of `zone_names`."""
    if name not in zone_names():
        raise KeyError(name)
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@lru_cache(maxsize=65_536)
def epoch_of(name: str, day: date, minute: int) -> Seconds:
    """When it is so many minutes after midnight on the clocks of a local day, or of the next past 1440."""
    days, minute = divmod(minute, MINUTES_A_DAY)
    day += timedelta(days=days)
    hour, minute = divmod(minute, 60)
    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone(name))
    return int(local.timestamp())


def has_day(name: str, day: date) -> bool:
    """Whether that date was there at all: Samoa leapt over one to change sides of the date line."""
    return epoch_of(name, day, 0) < epoch_of(name, day, MINUTES_A_DAY)


def local_time(name: str, moment: Seconds) -> datetime:
    """What the clocks there show, with their zone."""
    return datetime.fromtimestamp(moment, zone(name))


def same_on_clocks(name: str, local: datetime) -> tuple[Seconds, ...]:
    """When clocks there show it, mostly once; skipped, what it is by the clocks before the gap, and after."""
    moments = {int(local.replace(tzinfo=zone(name), fold=fold).timestamp()) for fold in (0, 1)}
    return tuple(sorted(moments))


def is_skipped(name: str, local: datetime) -> bool:
    """Whether clocks there never show it."""
    return all(local_time(name, one).replace(tzinfo=None) != local for one in same_on_clocks(name, local))


def moment_of(at: datetime) -> Seconds:
    return int(at.timestamp())


def at(moment: Seconds) -> datetime:
    return datetime.fromtimestamp(moment, UTC)


def days_later(name: str, moment: Seconds, days: int) -> Seconds:
    """The same time on the clocks there, so many days later: across a switch not as many times 24 hours."""
    local = local_time(name, moment).replace(tzinfo=None, fold=0) + timedelta(days=days)
    return int(local.replace(tzinfo=zone(name)).timestamp())
