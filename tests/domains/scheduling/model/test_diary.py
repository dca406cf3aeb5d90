"""Offered slots, and the conflicts of all other times: one rule in two forms."""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catraca.domains.scheduling.availability.model import (
    Agenda,
    ExpiredHold,
    ServiceSchedule,
    Slot,
    least_booked,
    nearest,
)
from catraca.domains.scheduling.calendar_math.hours import Hours, WeeklyRule
from catraca.domains.scheduling.calendar_math.spans import Seconds, Span
from catraca.domains.scheduling.calendar_math.zones import epoch_of, local_time
from catraca.domains.scheduling.shared.model import SessionId, SubjectNo
from tests.domains.scheduling.model.builders import (
    DAY,
    HOUR,
    agenda,
    clock,
    diary,
    on,
    rule,
    session,
    switches,
    worker,
)
from tests.support.examples import examples

MONDAY = date(2025, 6, 2)
WITHIN = (clock("UTC", "2025-06-02T00:00"), clock("UTC", "2025-06-03T00:00"))
NINE_TO_NOON = on(MONDAY, "09:00", "12:00")
EARLIER = WITHIN[0] - DAY


def at(text: str) -> Seconds:
    return clock("UTC", f"2025-06-02T{text}")


def span(start: str, end: str) -> Span:
    return at(start), at(end)


def shown(found: ServiceSchedule, within: Span = WITHIN, zone: str = "UTC") -> list[str]:
    return [local_time(zone, slot.starts).strftime("%H:%M") for slot in found.slots(within)]


def on_monday(hours: Hours = NINE_TO_NOON, **more: Any) -> Agenda:
    return agenda(hours, (WITHIN[0], WITHIN[1] + DAY), **more)


def test_claims_that_are_added_block_workers_and_rooms() -> None:
    room = SubjectNo(9)
    found = diary(on_monday(), now=EARLIER, rooms={room: [span("09:00", "10:00")]})
    for no in (worker().no, room):
        added = found.with_claims({no: [span("11:00", "12:00")]})
        assert shown(added) == ["10:00"]
    assert shown(found) == ["10:00", "10:30", "11:00"]
    assert found.with_claims({SubjectNo(8): [span("11:00", "12:00")]}) is found


def test_workers_with_added_claims_are_chosen_later() -> None:
    first, second = on_monday(), on_monday(no=2)
    found = diary([first, second]).with_claims({first.worker.no: [span("09:00", "10:00")]})
    assert least_booked(found.agendas).worker == second.worker


def test_slots_begin_and_end_within_the_shift() -> None:
    assert shown(diary(on_monday(), now=EARLIER)) == ["09:00", "09:30", "10:00", "10:30", "11:00"]


def test_a_step_longer_than_the_service_leaves_time_between() -> None:
    found = diary(on_monday(), now=EARLIER, duration_minutes=20, slot_step_minutes=50)
    assert shown(found) == ["09:00", "09:50", "10:40", "11:30"]


def test_a_shift_shorter_than_the_service_offers_nothing() -> None:
    assert shown(diary(on_monday(), now=EARLIER, duration_minutes=180)) == ["09:00"]
    assert shown(diary(on_monday(), now=EARLIER, duration_minutes=181)) == []


def test_buffers_block_bookings_and_may_exceed_the_hours() -> None:
    taken = on_monday(busy=[span("10:00", "10:20")])
    buffers = {"buffer_before_minutes": 10, "buffer_after_minutes": 5, "now": EARLIER}
    found = diary(taken, duration_minutes=30, slot_step_minutes=5, **buffers)
    before_and_after = ["09:00", "09:05", "09:10", "09:15", "09:20", "09:25", "10:30"]
    assert shown(found)[:7] == before_and_after
    assert shown(found)[-1] == "11:30"
    assert found.claim(at("09:00")) == span("08:50", "09:35")
    assert found.conflicts(taken, at("09:30")) == found.conflicts(taken, at("10:25")) == ["busy"]


def test_adjacent_bookings_do_not_block_each_other() -> None:
    taken = on_monday(busy=[span("10:00", "11:00")])
    assert shown(diary(taken, now=EARLIER)) == ["09:00", "11:00"]


def test_a_slot_may_go_on_from_one_shift_into_the_next() -> None:
    tuesday = MONDAY + timedelta(days=1)
    hours = Hours("UTC", [rule(MONDAY, "22:30", "24:00"), rule(tuesday, "00:00", "02:00")])
    found = diary(on_monday(hours), now=EARLIER)
    # The later shift has a grid of its own.
    assert shown(found, (WITHIN[0], WITHIN[1] + DAY)) == [
        "22:30",
        "23:00",
        "23:30",
        "00:00",
        "00:30",
        "01:00",
    ]


def test_overlapping_shifts_offer_each_grid_point_once() -> None:
    tuesday = MONDAY + timedelta(days=1)
    hours = Hours("UTC", [rule(MONDAY, "22:00", "02:00"), rule(tuesday, "00:20", "03:00")])
    found = diary(on_monday(hours), now=EARLIER, slot_step_minutes=60)
    after_midnight = (WITHIN[1], WITHIN[1] + DAY)
    assert shown(found, after_midnight) == ["00:00", "00:20", "01:00", "01:20"]
    same = Hours("UTC", [rule(MONDAY, "22:00", "02:00"), rule(tuesday, "00:00", "03:00")])
    assert shown(diary(on_monday(same), now=EARLIER, slot_step_minutes=60), after_midnight) == [
        "00:00",
        "01:00",
        "02:00",
    ]


def test_kolkatas_grid_is_on_its_local_half_hours() -> None:
    hours = Hours("Asia/Kolkata", [rule(MONDAY, "09:00", "11:00")])
    found = diary(on_monday(hours), now=EARLIER)
    assert shown(found, zone="Asia/Kolkata") == ["09:00", "09:30", "10:00"]
    assert shown(found) == ["03:30", "04:00", "04:30"]


def test_the_grid_follows_elapsed_time_at_a_half_hour_switch() -> None:
    name, day = "Australia/Lord_Howe", date(2025, 4, 6)
    hours = Hours(name, [rule(day, "01:00", "04:00")])
    within = (clock(name, "2025-04-06T00:00"), clock(name, "2025-04-06T12:00"))
    found = diary(agenda(hours, within), now=within[0] - DAY)
    assert shown(found, within, name) == ["01:00", "01:30", "01:30", "02:00", "02:30", "03:00"]


def test_repeated_hour_can_be_booked_twice() -> None:
    name, day = "America/New_York", date(2025, 11, 2)
    within = (clock(name, "2025-11-02T00:00"), clock(name, "2025-11-02T12:00"))
    found = diary(agenda(Hours(name, [rule(day, "00:00", "03:00")]), within), now=within[0] - DAY)
    hourly = diary(found.agendas, now=found.now, slot_step_minutes=60)
    assert shown(hourly, within, name) == ["00:00", "01:00", "01:00", "02:00"]


@pytest.mark.parametrize(
    ("day", "notice_hours", "first"),
    [
        # 24 hours after Saturday at ten it is eleven, or nine, on Sunday.
        (date(2025, 3, 9), 24, "11:00"),
        (date(2025, 11, 2), 24, "09:00"),
        (date(2025, 6, 8), 24, "10:00"),
    ],
)
def test_notice_is_elapsed_time(day: date, notice_hours: int, first: str) -> None:
    name = "America/New_York"
    now = clock(name, f"{day - timedelta(days=1)}T10:00")
    within = (now, now + 2 * DAY)
    hours = Hours(name, [rule(day, "08:00", "18:00")])
    found = diary(agenda(hours, within), now=now, min_notice_minutes=notice_hours * 60)
    assert shown(found, within, name)[0] == first
    assert found.conflicts(found.agendas[0], clock(name, f"{day}T08:00")) == ["too_soon"]


@pytest.mark.parametrize("day", [date(2025, 3, 9), date(2025, 11, 2), date(2025, 6, 8)])
def test_the_horizon_is_days_of_the_workers_calendar(day: date) -> None:
    name = "America/New_York"
    now = clock(name, f"{day - timedelta(days=1)}T10:00")
    within = (now, now + 3 * DAY)
    hours = Hours(name, [rule(day, "08:00", "18:00"), rule(day + timedelta(days=1), "08:00", "18:00")])
    found = diary(agenda(hours, within), now=now, horizon_days=1)
    assert shown(found, within, name)[-1] == "10:00"
    only = found.agendas[0]
    assert found.conflicts(only, clock(name, f"{day}T10:00")) == []
    assert found.conflicts(only, clock(name, f"{day}T10:30")) == ["beyond_horizon"]


def test_the_horizon_of_each_worker_is_their_own() -> None:
    """Two workers in zones with different clock changes."""
    now = clock("UTC", "2025-03-08T12:00")
    within = (now, now + 3 * DAY)
    all_day = [WeeklyRule(weekday, 0, 1440) for weekday in range(1, 8)]
    found = diary(
        [agenda(Hours("America/New_York", all_day), within), agenda(Hours("UTC", all_day), within, no=2)],
        now=now,
        horizon_days=2,
    )
    lasts = {slot.worker_id: slot.starts for slot in found.slots(within)}
    assert lasts == {worker(1).id: now + 2 * DAY - HOUR, worker(2).id: now + 2 * DAY}


def test_one_free_room_is_enough_and_the_first_is_taken() -> None:
    taken = {7: [span("09:00", "10:00")], 5: [span("09:00", "11:00")]}
    found = diary(on_monday(), now=EARLIER, rooms=taken)
    assert shown(found) == ["10:00", "10:30", "11:00"]
    only = found.agendas[0]
    assert found.conflicts(only, at("09:30")) == ["no_room"]
    assert [found.free_room(at(text)) for text in ("09:30", "10:00", "11:00")] == [None, 7, 5]


def test_two_partly_free_rooms_are_not_one_free_room() -> None:
    taken = {1: [span("09:30", "12:00")], 2: [span("09:00", "09:30")]}
    found = diary(on_monday(), now=EARLIER, rooms=taken)
    assert shown(found) == ["09:30", "10:00", "10:30", "11:00"]


def test_a_service_without_its_room_offers_nothing() -> None:
    found = diary(on_monday(), now=EARLIER, rooms={})
    assert shown(found) == []
    assert found.conflicts(found.agendas[0], at("09:00")) == ["no_room"]


def test_a_group_is_joinable_until_full_and_blocks_other_starts() -> None:
    taken = [span("09:30", "10:30"), span("10:30", "11:30")]
    sessions = {at("09:30"): session(at("10:30"), 3, 2), at("10:30"): session(at("11:30"), 3, 3, no=2)}
    found = diary(on_monday(busy=taken, sessions=sessions), now=EARLIER, rooms={1: taken}, capacity=3)
    assert [(slot.starts, slot.seats_left) for slot in found.slots(WITHIN)] == [(at("09:30"), 1)]
    only = found.agendas[0]
    assert found.conflicts(only, at("10:30")) == ["full"]
    assert found.conflicts(only, at("09:00")) == ["busy"]
    assert found.conflicts(only, at("09:30")) == []


def test_group_keeps_its_agreed_end() -> None:
    """The group was booked for an hour; the service now takes half an hour."""
    joined = on_monday(busy=[span("09:00", "10:00")], sessions={at("09:00"): session(at("10:00"), 2, 1)})
    found = diary(joined, now=EARLIER, duration_minutes=30, capacity=5)
    first, second, *_ = found.slots(WITHIN)
    assert (first.ends, first.seats_left) == (at("10:00"), 1)
    assert (second.starts, second.ends, second.seats_left) == (at("10:00"), at("10:30"), 5)


def test_only_expired_holds_in_the_way_are_returned() -> None:
    ids = [SessionId(worker(number).id) for number in (1, 2, 3)]
    found = ServiceSchedule(
        diary(on_monday()).service,
        [on_monday()],
        None,
        EARLIER,
        [
            ExpiredHold(SubjectNo(1), span("09:00", "10:00"), ids[0]),
            ExpiredHold(SubjectNo(1), span("10:00", "11:00"), ids[1]),
            ExpiredHold(SubjectNo(2), span("09:00", "10:00"), ids[2]),
        ],
    )
    assert found.expired_sessions({SubjectNo(1)}, span("09:30", "10:00")) == {ids[0]}
    assert found.expired_sessions({SubjectNo(1), SubjectNo(2)}, span("09:30", "10:01")) == set(ids)


def test_all_conflicts_of_a_time_are_returned() -> None:
    found = diary(on_monday(busy=[span("12:00", "13:00")]), now=at("12:00"), min_notice_minutes=60)
    assert found.conflicts(found.agendas[0], at("12:01")) == ["too_soon", "outside_hours", "busy"]
    assert found.conflicts(found.agendas[0], at("09:10")) == ["too_soon", "off_grid"]


def test_only_the_requested_part_of_a_fine_grid_is_computed() -> None:
    """A hundred workers, every minute, around the clock, for a month: four million starts."""
    always = [WeeklyRule(weekday, 0, 1440) for weekday in range(1, 8)]
    month = (WITHIN[0], WITHIN[0] + 31 * DAY)
    computed: list[Seconds] = []

    class Watched(Agenda):
        def grid(self, within: Span, step: Seconds, *, backwards: bool = False) -> Iterable[Seconds]:  # type: ignore[override]
            for point in super().grid(within, step, backwards=backwards):
                computed.append(point)
                yield point

    workers = [Watched(worker(no), Hours("UTC", always), month) for no in range(1, 101)]
    found = diary(workers, now=EARLIER, slot_step_minutes=1)
    for slots in (found.slots(month), found.slots_backwards(month)):
        computed.clear()
        assert len(list(islice(slots, 50))) == 50
        assert len(computed) < 200


def test_least_booked_then_idlest_worker_comes_first() -> None:
    def of(no: int, booked: int, idle_since: int) -> Agenda:
        return on_monday(no=no, booked_seconds=booked, idle_since=idle_since)

    assert least_booked([of(1, 120, 0), of(2, 60, 900), of(3, 60, 800), of(4, 60, 800)]).worker.no == 3
    assert least_booked([of(1, 60, 900), of(2, 0, 950)]).worker.no == 2


def test_nearest_slots_are_ordered_and_ties_go_to_the_earlier() -> None:
    def slot(starts: int, no: int = 1) -> Slot:
        return Slot(starts, worker(no).id, starts + 60, 1)

    slots = [slot(starts) for starts in (0, 70, 90, 110, 130, 300)]
    assert [one.starts for one in nearest(slots, 100, limit=3)] == [70, 90, 110]
    assert [one.starts for one in nearest([slot(90), slot(110)], 100, limit=1)] == [90]
    assert [one.worker_id for one in nearest([slot(9, 2), slot(9, 1)], 9, limit=1)] == [worker(1).id]


def test_workers_at_one_time_are_ordered_by_id() -> None:
    """Workers are read in the order of their numbers, which differs."""
    found = diary([on_monday(no=no) for no in (2, 3, 1)], now=EARLIER)
    ids = [worker(no).id for no in (1, 2, 3)]
    for slots in (found.slots(WITHIN), found.slots_backwards(WITHIN)):
        assert [slot.worker_id for slot in islice(slots, 6)] == [*ids, *ids]


STEPS = (5, 7, 15, 30, 60, 90, 1440)
LENGTHS = (1, 20, 30, 45, 60, 150)
minutes = st.tuples(st.integers(0, 1439), st.integers(1, 400) | st.integers(400, 1440)).map(
    lambda pair: (pair[0], sum(pair))
)
# In minutes from noon of the day.
stretches = st.tuples(st.integers(-2500, 2500), st.integers(1, 200)).map(lambda pair: (pair[0], sum(pair)))


@st.composite
def agendas(draw: st.DrawFn, name: str, day: date, within: Span, terms: dict[str, int], no: int) -> Agenda:
    noon = epoch_of(name, day, 720)
    weekdays = st.sampled_from([(day + timedelta(days=days)).isoweekday() for days in (-1, 0, 1)])
    rules = draw(
        st.lists(
            st.builds(lambda one, weekday: WeeklyRule(weekday, *one), minutes, weekdays),
            min_size=1,
            max_size=5,
        )
    )
    overrides = draw(
        st.dictionaries(
            st.sampled_from([day, day + timedelta(days=1)]), st.lists(minutes, max_size=2), max_size=1
        )
    )
    stretch = (within[0], within[1] + terms["duration_minutes"] * 60)
    hours = Hours(name, rules, overrides)
    taken = [(noon + start * 60, noon + end * 60) for start, end in draw(st.lists(stretches, max_size=6))]
    made = agenda(hours, stretch, no=no)
    sessions = {}
    if terms["capacity"] > 1 and made.shifts:
        for shift in draw(st.lists(st.sampled_from(made.shifts), max_size=3)):
            begins = shift[0] + draw(st.integers(0, 5)) * terms["slot_step_minutes"] * 60
            seats = draw(st.integers(1, terms["capacity"]))
            sessions[begins] = session(begins + 60, terms["capacity"], seats)
            taken.append((begins - 60, begins + terms["duration_minutes"] * 60))
    return agenda(hours, stretch, no=no, busy=taken, sessions=sessions)


@st.composite
def diaries(draw: st.DrawFn) -> tuple[ServiceSchedule, Span]:
    """A diary around a clock change, with one to three workers in different zones."""
    name, day = draw(switches)
    noon = epoch_of(name, day, 720)
    first = noon + draw(st.integers(-1800, 0)) * 60
    within = (first, first + draw(st.integers(600, 3000)) * 60)
    small = st.sampled_from([0, 0, 1, 10, 75])
    terms = {
        "duration_minutes": draw(st.sampled_from(LENGTHS)),
        "slot_step_minutes": draw(st.sampled_from(STEPS)),
        "buffer_before_minutes": draw(small),
        "buffer_after_minutes": draw(small),
        "min_notice_minutes": draw(st.sampled_from([0, 0, 1, 90, 1440])),
        "horizon_days": draw(st.integers(1, 4)),
        "capacity": draw(st.sampled_from([1, 3])),
    }
    # The first worker is in the zone of the change, the others in any zone.
    zones = [name, *draw(st.lists(switches.map(lambda switch: switch[0]), max_size=2))]
    each = [draw(agendas(zone, day, within, terms, no)) for no, zone in enumerate(zones, start=1)]
    rooms = draw(
        st.none() | st.dictionaries(st.integers(50, 52), st.lists(stretches, max_size=5), max_size=3)
    )
    taken = rooms and {
        no: [(noon + start * 60, noon + end * 60) for start, end in spans] for no, spans in rooms.items()
    }
    now = noon + draw(st.integers(-4000, -1500) | st.integers(-1500, 500)) * 60 + draw(st.integers(0, 59))
    return diary(each, now=now, rooms=taken if rooms is not None else None, **terms), within


def is_offered(found: ServiceSchedule, of: Agenda, starts: Seconds) -> bool:
    """The rule in its simplest form: no search, no merging, no function of `spans`."""
    terms = found.service.terms
    ends = starts + terms.duration_minutes * 60
    claim = (starts - terms.buffer_before_minutes * 60, ends + terms.buffer_after_minutes * 60)

    def is_free(busy: Sequence[Span]) -> bool:
        return not any(start < claim[1] and end > claim[0] for start, end in busy)

    if starts < found.now + terms.min_notice_minutes * 60 or starts >= found.latest(of):
        return False
    shifts = of.shifts
    edge = starts
    while edge < ends:  # from shift to shift, while they are adjacent
        further = max((end for start, end in shifts if start <= edge < end), default=edge)
        if further == edge:
            return False
        edge = further
    step = terms.slot_step_minutes * 60
    if not any(start <= starts < end and (starts - start) % step == 0 for start, end in shifts):
        return False
    if starts in of.sessions:
        return of.sessions[starts].seats_taken < of.sessions[starts].capacity
    return is_free(of.busy) and (found.rooms is None or any(is_free(busy) for busy in found.rooms.values()))


def candidates(found: ServiceSchedule, of: Agenda, within: Span) -> set[Seconds]:
    """Every minute, and the seconds around every edge."""
    taken = [*of.busy, *(one for busy in (found.rooms or {}).values() for one in busy)]
    edges = [edge for one in [*of.shifts, *taken, within] for edge in one]
    edges += [found.earliest, found.latest(of), *of.sessions]
    around = {edge + seconds for edge in edges for seconds in (-1, 0, 1)}
    return {starts for starts in around | set(range(*within, 60)) if within[0] <= starts < within[1]}


@settings(max_examples=examples(120))
@given(diaries())
def test_offered_slots_are_exactly_those_without_conflicts(drawn: tuple[ServiceSchedule, Span]) -> None:
    found, within = drawn
    slots = list(found.slots(within))
    assert slots == sorted(slots)
    assert len(slots) == len({slot[:2] for slot in slots})
    for of in found.agendas:
        times = candidates(found, of, within)
        without_fault = {starts for starts in times if not found.conflicts(of, starts)}
        assert without_fault == {starts for starts in times if is_offered(found, of, starts)}
        assert {slot.starts for slot in slots if slot.worker_id == of.worker.id} == without_fault


@given(diaries(), st.integers(1, 40))
def test_backward_search_offers_the_same_slots(drawn: tuple[ServiceSchedule, Span], share: int) -> None:
    found, within = drawn
    slots = list(found.slots(within))
    backwards = list(found.slots_backwards(within))
    assert sorted(backwards) == slots
    assert backwards == sorted(slots, key=lambda slot: (-slot.starts, slot.worker_id))
    middle = within[0] + (within[1] - within[0]) * share // 40
    assert [*found.slots((within[0], middle)), *found.slots((middle, within[1]))] == slots


@given(diaries())
def test_every_offered_slot_has_a_free_room_or_its_own(
    drawn: tuple[ServiceSchedule, Span],
) -> None:
    found, within = drawn
    sessions = {of.worker.id: of.sessions for of in found.agendas}
    for slot in found.slots(within):
        if found.rooms is not None and slot.starts not in sessions[slot.worker_id]:
            assert found.free_room(slot.starts) is not None
