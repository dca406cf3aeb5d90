"""Local time, by the `tzdata` package only: every machine computes the same, and the version is known.

A local time that the clocks skip is moved forward by the length of the gap. A local time that the clocks
repeat means the first of the two (`fold=0`).
"""

from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from zoneinfo import ZoneInfo

import tzdata

from catraca.domains.scheduling.calendar_math.spans import Seconds

TZDATA_VERSION = tzdata.IANA_VERSION
MINUTES_A_DAY = 1440


@cache
def zone_names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


@cache
def zone(name: str) -> ZoneInfo:
    """The zone of one of `zone_names`; another name is a KeyError."""
    if name not in zone_names():
        raise KeyError(name)
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@lru_cache(maxsize=65_536)
def epoch_of(name: str, day: date, minute: int) -> Seconds:
    """The moment of a minute of a local day; minutes from 1440 on are on the next day."""
    days, minute = divmod(minute, MINUTES_A_DAY)
    day += timedelta(days=days)
    hour, minute = divmod(minute, 60)
    local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone(name))
    return int(local.timestamp())


def has_day(name: str, day: date) -> bool:
    """False if the zone skipped that date, as Samoa did when it crossed the date line."""
    return epoch_of(name, day, 0) < epoch_of(name, day, MINUTES_A_DAY)


def local_time(name: str, moment: Seconds) -> datetime:
    return datetime.fromtimestamp(moment, zone(name))


def moments_of(name: str, local: datetime) -> tuple[Seconds, ...]:
    """The moments at which clocks show a local time: one, or two if they repeat it.

    For a time that clocks skip: the moments it would be by the offsets before and after the gap.
    """
    moments = {int(local.replace(tzinfo=zone(name), fold=fold).timestamp()) for fold in (0, 1)}
    return tuple(sorted(moments))


def is_skipped(name: str, local: datetime) -> bool:
    """True if clocks never show this local time."""
    return all(local_time(name, one).replace(tzinfo=None) != local for one in moments_of(name, local))


def to_seconds(moment: datetime) -> Seconds:
    return int(moment.timestamp())


def to_datetime(moment: Seconds) -> datetime:
    """In UTC."""
    return datetime.fromtimestamp(moment, UTC)


def wall_clock(name: str, moment: Seconds) -> datetime:
    """The local time without zone and fold, as it is stored."""
    return local_time(name, moment).replace(tzinfo=None, fold=0)


# One request needs it for many workers in a few zones.
@lru_cache(maxsize=1024)
def days_later(name: str, moment: Seconds, days: int) -> Seconds:
    """The same local time some days later. With a clock change, a day is not 24 hours."""
    local = wall_clock(name, moment) + timedelta(days=days)
    return int(local.replace(tzinfo=zone(name)).timestamp())
