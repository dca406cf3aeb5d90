"""From local times to moments: shifts around clock changes, overrides and holidays."""

from datetime import date, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.scheduling.calendar_math.holidays import Holidays, holiday_on, is_known
from catraca.domains.scheduling.calendar_math.hours import (
    UTC_DAYS_AFTER,
    UTC_DAYS_BEFORE,
    Hours,
    WeeklyRule,
    _days_around,
)
from catraca.domains.scheduling.calendar_math.spans import Span, merge
from catraca.domains.scheduling.calendar_math.zones import (
    epoch_of,
    has_day,
    local_time,
    to_datetime,
    zone_names,
)
from tests.domains.scheduling.model.builders import (
    DAY,
    HOUR,
    SWITCHES,
    clock,
    days_around,
    minutes_worked,
    rule,
    switches,
)

NEW_YORK, SAO_PAULO, LORD_HOWE = "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("zone", "day", "start", "end", "minutes"),
    [
        (NEW_YORK, date(2025, 3, 9), "01:00", "03:00", 60),
        (NEW_YORK, date(2025, 3, 9), "02:00", "03:00", 0),
        (NEW_YORK, date(2025, 3, 9), "02:30", "03:00", 0),
        (NEW_YORK, date(2025, 3, 9), "00:00", "24:00", 23 * 60),
        (NEW_YORK, date(2025, 3, 8), "22:00", "06:00", 7 * 60),
        (NEW_YORK, date(2025, 11, 2), "00:00", "03:00", 240),
        (NEW_YORK, date(2025, 11, 2), "00:00", "24:00", 25 * 60),
        (NEW_YORK, date(2025, 11, 1), "22:00", "06:00", 9 * 60),
        (SAO_PAULO, date(2018, 11, 4), "00:00", "06:00", 300),
        (SAO_PAULO, date(2018, 11, 3), "22:00", "06:00", 420),
        (SAO_PAULO, date(2018, 11, 3), "22:00", "24:00", 120),
        (SAO_PAULO, date(2018, 2, 17), "22:00", "02:00", 300),
        # A change of half an hour.
        (LORD_HOWE, date(2025, 10, 5), "01:00", "04:00", 150),
        (LORD_HOWE, date(2025, 4, 6), "01:00", "04:00", 210),
        # Friday the 30th was skipped.
        ("Pacific/Apia", date(2011, 12, 30), "09:00", "17:00", 0),
        ("Pacific/Apia", date(2011, 12, 29), "22:00", "06:00", 8 * 60),
        ("Pacific/Apia", date(2011, 12, 31), "09:00", "17:00", 8 * 60),
        ("Asia/Kolkata", date(2025, 3, 9), "01:00", "03:00", 120),
    ],
)
def test_shift_length_follows_clock_changes(zone: str, day: date, start: str, end: str, minutes: int) -> None:
    assert minutes_worked(zone, day, start, end) == minutes


def test_a_night_shift_has_the_repeated_midnight_hour_twice() -> None:
    within = (clock(SAO_PAULO, "2018-02-17T12:00"), clock(SAO_PAULO, "2018-02-18T12:00"))
    ((start, end),) = Hours(SAO_PAULO, [rule(date(2018, 2, 17), "22:00", "02:00")]).shifts(within)
    shown = [local_time(SAO_PAULO, moment).strftime("%H:%M") for moment in range(start, end + 1, HOUR)]
    assert shown == ["22:00", "23:00", "23:00", "00:00", "01:00", "02:00"]


def test_both_sides_of_the_date_line_mean_the_same_moment() -> None:
    """Wednesday morning on Kiritimati is Tuesday morning on Pago Pago, 25 hours behind."""
    wednesday = date(2025, 6, 4)
    within = (
        clock("Pacific/Kiritimati", "2025-06-04T00:00"),
        clock("Pacific/Kiritimati", "2025-06-05T00:00"),
    )
    ((start, end),) = Hours("Pacific/Kiritimati", [rule(wednesday, "09:00", "17:00")]).shifts(within)
    there = [local_time("Pacific/Pago_Pago", moment).strftime("%a %H:%M") for moment in (start, end)]
    assert there == ["Tue 08:00", "Tue 16:00"]
    assert local_time("UTC", start).strftime("%a %H:%M") == "Tue 19:00"


def test_a_night_shift_belongs_to_the_day_on_which_it_begins() -> None:
    monday = date(2025, 6, 2)
    hours = Hours("UTC", [rule(monday, "22:00", "06:00")])
    night = (clock("UTC", "2025-06-02T22:00"), clock("UTC", "2025-06-03T06:00"))
    # A range that has only the last minute of the shift contains it; one that starts at its end does not.
    assert hours.shifts((night[1] - 60, night[1] + DAY)) == [night]
    assert hours.shifts((night[1], night[1] + DAY)) == []
    assert hours.shifts((night[0] - DAY, night[0] + 60)) == [night]
    assert hours.shifts((night[0] - DAY, night[0])) == []


def test_adjacent_shifts_merge_and_night_shifts_stay_separate() -> None:
    monday = date(2025, 6, 2)
    hours = Hours(
        "UTC",
        [
            rule(monday, "09:00", "12:00"),
            rule(monday, "12:00", "14:00"),
            rule(monday, "13:00", "18:00"),
            rule(monday, "20:00", "04:00"),
            rule(monday + timedelta(days=1), "03:00", "05:00"),
        ],
    )
    within = (clock("UTC", "2025-06-02T00:00"), clock("UTC", "2025-06-04T00:00"))
    shown = [[local_time("UTC", edge).strftime("%a %H:%M") for edge in span] for span in hours.shifts(within)]
    assert shown == [["Mon 09:00", "Mon 18:00"], ["Mon 20:00", "Tue 04:00"], ["Tue 03:00", "Tue 05:00"]]


def test_a_day_with_other_hours_has_these_and_no_others() -> None:
    monday, tuesday = date(2025, 6, 2), date(2025, 6, 3)
    hours = Hours(
        "UTC",
        [rule(monday, "09:00", "18:00"), rule(tuesday, "22:00", "06:00")],
        overrides={monday: [(600, 660)], tuesday: [], date(2025, 6, 4): [(1380, 1500)]},
    )
    assert hours.shifts_on(monday) == [(600, 660)]
    assert hours.shifts_on(tuesday) == []
    assert hours.shifts_on(date(2025, 6, 4)) == [(1380, 1500)]
    assert hours.shifts_on(monday + timedelta(days=7)) == [(540, 1080)]


def test_a_rule_holds_from_its_first_day_to_its_last() -> None:
    monday = date(2025, 6, 2)
    weeks = [monday + timedelta(days=7 * week) for week in range(4)]
    hours = Hours("UTC", [rule(monday, "09:00", "18:00", valid_from=weeks[1], valid_to=weeks[2])])
    assert [bool(hours.shifts_on(day)) for day in weeks] == [False, True, True, False]
    open_ended = Hours("UTC", [rule(monday, "09:00", "18:00", valid_from=weeks[2])])
    assert [bool(open_ended.shifts_on(day)) for day in weeks] == [False, False, True, True]


def test_holidays_are_of_the_country_and_state() -> None:
    revolution = date(2025, 7, 9)
    assert holiday_on(Holidays("BR", "SP"), revolution) is not None
    assert holiday_on(Holidays("BR"), revolution) is None
    assert holiday_on(Holidays("BR", "BA"), date(2025, 7, 2)) is not None
    assert holiday_on(Holidays("BR", "SP"), date(2025, 7, 2)) is None
    assert is_known(Holidays("BR", "SP"))
    assert is_known(Holidays("US"))
    assert not is_known(Holidays("BR", "XX"))
    assert not is_known(Holidays("XX"))


def test_holiday_names_are_in_the_callers_or_countrys_language() -> None:
    christmas = date(2025, 12, 25)
    names = [holiday_on(Holidays("BR"), christmas, language) for language in (None, "pt-BR", "en", "ja")]
    assert names == ["Natal", "Natal", "Christmas Day", "Natal"]
    assert holiday_on(Holidays("DE"), christmas, "pt-BR") == "Erster Weihnachtstag"
    assert holiday_on(Holidays("BR"), date(2025, 12, 24), "en") is None


def test_a_holiday_has_no_hours_unless_overridden() -> None:
    christmas = date(2025, 12, 25)
    rules = [rule(christmas, "09:00", "18:00")]
    closed = Hours(SAO_PAULO, rules, holidays=Holidays("BR"))
    assert closed.shifts_on(christmas) == []
    assert closed.shifts_on(christmas + timedelta(days=7)) == []  # New Year's Day
    assert closed.shifts_on(christmas + timedelta(days=14)) == [(540, 1080)]
    at_work = Hours(SAO_PAULO, rules, {christmas: [(600, 720)]}, Holidays("BR"))
    assert at_work.shifts_on(christmas) == [(600, 720)]


def test_night_shift_before_a_holiday_continues_into_it() -> None:
    christmas_eve = date(2025, 12, 24)
    hours = Hours(SAO_PAULO, [rule(christmas_eve, "22:00", "06:00")], holidays=Holidays("BR"))
    within = (clock(SAO_PAULO, "2025-12-25T00:00"), clock(SAO_PAULO, "2025-12-26T00:00"))
    assert hours.shifts(within) == [
        (clock(SAO_PAULO, "2025-12-24T22:00"), clock(SAO_PAULO, "2025-12-25T06:00"))
    ]


minutes = st.tuples(st.integers(0, 1439), st.integers(1, 1440)).map(lambda pair: (pair[0], sum(pair)))


@given(
    switches,
    st.lists(st.tuples(st.integers(1, 7), minutes), max_size=6),
    st.tuples(st.integers(-2 * DAY, 2 * DAY), st.integers(1, 2 * DAY)),
)
def test_shifts_of_a_span_include_every_day_it_touches(
    switch: tuple[str, date], weekly: list[tuple[int, tuple[int, int]]], stretch: tuple[int, int]
) -> None:
    name, day = switch
    hours = Hours(name, [WeeklyRule(weekday, *span) for weekday, span in weekly])
    start = epoch_of(name, day, 720) + stretch[0]
    within: Span = (start, start + stretch[1])
    all_days = [day + timedelta(days=days) for days in range(-8, 9)]
    expected = [
        (epoch_of(name, one, first), epoch_of(name, one, last))
        for one in all_days
        if has_day(name, one)
        for first, last in hours.shifts_on(one)
    ]
    found = [span for span in expected if span[0] < span[1] and span[0] < within[1] and span[1] > within[0]]
    assert hours.shifts(within) == sorted(found)


@pytest.mark.parametrize(("name", "day"), SWITCHES)
def test_round_the_clock_hours_have_no_gap(name: str, day: date) -> None:
    hours = Hours(name, [WeeklyRule(weekday, 0, 1440) for weekday in range(1, 8)])
    within = (epoch_of(name, day, 0) - DAY, epoch_of(name, day, 0) + 2 * DAY)
    ((start, end),) = merge(hours.shifts(within))
    assert start <= within[0] < within[1] <= end


@pytest.mark.parametrize(("name", "day"), SWITCHES)
def test_local_times_match_the_rules_except_in_a_gap(name: str, day: date) -> None:
    """Compared with the conversion of the standard library, with the machine's own files."""
    hours = Hours(name, overrides={one: [(540, 1020)] for one in days_around(day)})
    noon = epoch_of(name, day, 720)
    for start, end in hours.shifts((noon - 2 * DAY, noon + 2 * DAY)):
        shown = [local_time(name, edge).astimezone(ZoneInfo(name)).strftime("%H:%M") for edge in (start, end)]
        assert shown == ["09:00", "17:00"]


def test_overrides_are_read_for_every_day_that_shifts_use() -> None:
    """The query counts the days from UTC dates, the hours count them from local dates."""
    for moment in range(clock("UTC", "2025-01-01T00:30"), clock("UTC", "2025-01-03T00:30"), HOUR):
        first, last = (to_datetime(one).date() for one in (moment, moment + 1800))
        for name in zone_names():
            days = _days_around(name, (moment, moment + 1800))
            assert first - timedelta(days=UTC_DAYS_BEFORE) <= min(days), name
            assert max(days) <= last + timedelta(days=UTC_DAYS_AFTER), name
