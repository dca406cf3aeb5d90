"""Local time: conversion to moments and back, around all clock changes."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import tzdata
from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.scheduling.calendar_math.zones import (
    TZDATA_VERSION,
    days_later,
    epoch_of,
    has_day,
    local_time,
    to_datetime,
    to_seconds,
    zone,
    zone_names,
)
from tests.domains.scheduling.model.builders import DAY, HOUR, clock, switches

NEW_YORK, SAO_PAULO = "America/New_York", "America/Sao_Paulo"


def test_every_zone_that_is_named_can_be_opened() -> None:
    assert len(zone_names()) > 400
    for name in zone_names():
        assert local_time(name, 0).utcoffset() is not None


@pytest.mark.parametrize(
    "name", ["", "UTC+3", "america/bahia", "Mars/Olympus", "../zoneinfo/UTC", "tzdata.zi"]
)
def test_unknown_zone_name_is_a_key_error(name: str) -> None:
    with pytest.raises(KeyError):
        zone(name)


def test_zone_rules_come_from_the_reported_tzdata_version() -> None:
    assert tzdata.IANA_VERSION == TZDATA_VERSION
    # A zone from the machine's own files would be the same object, from Python's cache.
    assert zone(SAO_PAULO) is not ZoneInfo(SAO_PAULO)
    assert str(zone(SAO_PAULO)) == SAO_PAULO


def test_minutes_past_a_day_are_of_the_next() -> None:
    day = date(2025, 7, 1)
    assert epoch_of(NEW_YORK, day, 1440 + 90) == epoch_of(NEW_YORK, day + timedelta(days=1), 90)
    assert epoch_of(NEW_YORK, day, 2880) == epoch_of(NEW_YORK, day + timedelta(days=2), 0)


def test_a_nonexistent_time_moves_past_the_gap_by_its_offset() -> None:
    assert epoch_of(NEW_YORK, date(2025, 3, 9), 150) == clock(NEW_YORK, "2025-03-09T03:30")
    assert epoch_of(SAO_PAULO, date(2018, 11, 4), 0) == clock(SAO_PAULO, "2018-11-04T01:00")


def test_repeated_local_time_means_the_first() -> None:
    first, second = (clock(NEW_YORK, "2025-11-02T01:30", fold=fold) for fold in (0, 1))
    assert second - first == HOUR
    assert epoch_of(NEW_YORK, date(2025, 11, 2), 90) == first


@given(switches, st.integers(-3 * 24 * 60, 3 * 24 * 60))
def test_local_time_converts_back_to_the_same_moment(switch: tuple[str, date], minutes: int) -> None:
    name, day = switch
    moment = epoch_of(name, day, 720) // 60 * 60 + minutes * 60
    local = local_time(name, moment)
    again = epoch_of(name, local.date(), local.hour * 60 + local.minute)
    # A repeated local time is read as its first occurrence, earlier by the size of the change.
    first = local.replace(fold=0).utcoffset()
    second = local.replace(fold=1).utcoffset()
    assert first is not None
    assert second is not None
    assert again == moment - (int((first - second).total_seconds()) if local.fold else 0)


def test_a_skipped_day_has_no_hours() -> None:
    there = [day for day in range(28, 32) if has_day("Pacific/Apia", date(2011, 12, day))]
    assert there == [28, 29, 31]
    assert not has_day("Pacific/Kwajalein", date(1993, 8, 21))


@given(switches, st.integers(-5, 5))
def test_only_skipped_dates_do_not_exist(switch: tuple[str, date], days: int) -> None:
    name, day = switch
    day += timedelta(days=days)
    assert has_day(name, day) == ((name, day) != ("Pacific/Apia", date(2011, 12, 30)))


def test_days_later_is_the_same_time_on_the_clocks() -> None:
    before = clock(NEW_YORK, "2025-03-08T12:00")
    assert days_later(NEW_YORK, before, 1) == clock(NEW_YORK, "2025-03-09T12:00") == before + 23 * HOUR
    before = clock(NEW_YORK, "2025-11-01T12:00")
    assert days_later(NEW_YORK, before, 1) == clock(NEW_YORK, "2025-11-02T12:00") == before + 25 * HOUR
    assert days_later("Asia/Kolkata", before, 60) == before + 60 * DAY


def test_days_later_in_a_clock_gap_is_after_the_gap() -> None:
    before = clock(NEW_YORK, "2025-03-08T02:30")
    assert days_later(NEW_YORK, before, 1) == clock(NEW_YORK, "2025-03-09T03:30")


def test_days_later_from_the_second_of_two_times_is_one_day() -> None:
    second = clock(NEW_YORK, "2025-11-02T01:30", fold=1)
    assert days_later(NEW_YORK, second, 1) == clock(NEW_YORK, "2025-11-03T01:30") == second + DAY


def test_moments_are_whole_seconds_of_utc() -> None:
    moment = clock("Asia/Kolkata", "2025-06-01T09:30")
    assert to_datetime(moment).isoformat() == "2025-06-01T04:00:00+00:00"
    assert to_seconds(datetime.fromisoformat("2025-06-01T09:30:00.999999+05:30")) == moment
