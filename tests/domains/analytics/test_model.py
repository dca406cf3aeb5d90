"""Counts as values: what each event adds to an hour, a cell and a window, in any order."""

from collections import Counter
from datetime import datetime, timedelta
from uuid import uuid4

import h3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.analytics.handlers import EVENTS
from catraca.domains.analytics.model import (
    CELL_RESOLUTION,
    EPOCH,
    Cell,
    Counts,
    Fact,
    by_hour,
    by_window,
    cell_of,
    cells_within,
    center_of,
    fact_of,
    name_of,
    percent_failed,
    region_of,
    start_of,
)
from catraca.events import MatchingTimeout, NoDriversAvailable, RideMatched, RideReassigning, RideRequested
from catraca.events.catalogue import example_of
from catraca.events.rides import Point
from catraca.platform.event import Event
from tests.domains.analytics.example_events import NOON, failed, matched, reassigning, requested

LATS = st.floats(-89, 89)
LNGS = st.floats(-180, 180)
MOMENTS = st.integers(0, 10**16).map(lambda late: EPOCH + timedelta(microseconds=late))
LENGTHS = st.integers(1, 400_000).map(lambda seconds: timedelta(seconds=seconds))
FACTS = st.builds(
    Fact,
    kind=st.sampled_from(["requests", "reassigned", "matched", "failed"]),
    at=st.integers(0, 10_000).map(lambda seconds: NOON + timedelta(seconds=seconds)),
    cell=st.sampled_from([cell_of(Point(lat, -46.63)) for lat in (-23.55, -23.6, -24.9)]),
    match_ms=st.just(0),
) | st.builds(
    Fact,
    kind=st.just("matched"),
    at=st.just(NOON),
    cell=st.just(cell_of(Point(-23.55, -46.63))),
    match_ms=st.integers(0, 300_000),
)


def test_each_event_adds_its_fact_at_its_own_time() -> None:
    at = NOON + timedelta(minutes=5)
    assert fact_of(requested(at=at)) == Fact(kind="requests", at=at, cell=cell_of(Point(-23.55, -46.63)))
    assert fact_of(reassigning(at=at)) == Fact(kind="reassigned", at=at, cell=cell_of(Point(-23.55, -46.63)))
    after = fact_of(matched(at=at, waited=timedelta(seconds=17.25)))
    assert after == Fact(kind="matched", at=at, cell=cell_of(Point(-23.55, -46.63)), match_ms=17250)
    for kind in (MatchingTimeout, NoDriversAvailable):
        event = failed(at=at, kind=kind)
        assert fact_of(event) == Fact(kind="failed", at=at, cell=cell_of(Point(-23.55, -46.63)))
        assert event.timestamp != at, "the two times must differ"


def test_match_time_is_never_negative() -> None:
    fact = fact_of(matched(waited=-timedelta(seconds=3)))
    assert fact is not None
    assert fact.match_ms == 0


def test_only_requests_and_ended_searches_have_facts() -> None:
    placed = {RideRequested, RideReassigning, RideMatched, MatchingTimeout, NoDriversAvailable}
    kinds = [kind for kinds in EVENTS.values() for kind in kinds]
    assert {kind for kind in kinds if fact_of(example_of(kind)) is not None} == placed


@given(LATS, LNGS)
def test_cell_lies_in_its_region(lat: float, lng: float) -> None:
    cell = cell_of(Point(lat, lng))
    assert h3.get_resolution(name_of(cell)) == CELL_RESOLUTION
    assert h3.cell_to_parent(name_of(cell), 5) == name_of(region_of(cell))


def test_request_and_match_have_the_same_cell() -> None:
    """Requests have the exact pickup, other events a rounded one, here near the edge of a cell."""
    edges = 0
    for number in range(1000):
        door = Point(-23.55 + number * 0.0001, -46.63)
        rough = Point(round(door.lat, 3), round(door.lng, 3))
        events: list[Event] = [requested(pickup=door), matched(pickup=rough), failed(pickup=rough)]
        assert len({fact.cell for event in events if (fact := fact_of(event)) is not None}) == 1
        edges += h3.latlng_to_cell(door.lat, door.lng, 7) != h3.latlng_to_cell(rough.lat, rough.lng, 7)
    assert edges, "no pickup was near an edge"


@given(LATS, LNGS, LATS, LNGS, st.integers(0, CELL_RESOLUTION))
def test_larger_cell_contains_the_cells_in_its_bounds(
    lat: float, lng: float, other_lat: float, other_lng: float, resolution: int
) -> None:
    cell = cell_of(Point(lat, lng))
    # Neighbour cells, where bounds could overlap, and a random cell.
    beside = [Cell(int(name, 16)) for name in h3.grid_ring(name_of(cell), 1)]
    larger = h3.cell_to_parent(name_of(cell), resolution)
    lowest, highest = cells_within(larger)
    for one in (cell, *beside, cell_of(Point(other_lat, other_lng))):
        within = h3.cell_to_parent(name_of(one), resolution) == larger
        assert (lowest <= one <= highest) == within


@given(st.from_regex("[0-9a-f]{13}", fullmatch=True), st.integers(0, CELL_RESOLUTION))
def test_invalid_cell_names_have_bounds(digits: str, resolution: int) -> None:
    lowest, highest = cells_within(f"8{resolution}{digits}")
    assert 0 <= lowest <= highest < 2**63


def test_centre_of_a_cell_lies_in_it() -> None:
    cell = cell_of(Point(-23.55, -46.63))
    assert cell_of(center_of(cell)) == cell


@given(MOMENTS, LENGTHS)
def test_each_time_lies_in_one_window(moment: datetime, length: timedelta) -> None:
    start = start_of(moment, length)
    assert start <= moment < start + length
    assert start_of(start, length) == start
    assert start_of(start + length, length) == start + length


@given(st.lists(FACTS, max_size=40), st.randoms(use_true_random=False), LENGTHS)
def test_sums_do_not_depend_on_the_order(facts: list[Fact], chance: object, length: timedelta) -> None:
    shuffled = list(facts)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert by_hour(facts) == by_hour(shuffled)
    assert list(by_window(facts, length).items()) == list(by_window(shuffled, length).items())
    assert list(by_hour(facts)) == sorted(by_hour(facts)), "rows are locked in one order"
    assert list(by_window(facts, length)) == sorted(by_window(facts, length))


@given(st.lists(FACTS, max_size=40), LENGTHS)
def test_facts_are_counted_exactly_once(facts: list[Fact], length: timedelta) -> None:
    hours, windows = by_hour(facts).values(), by_window(facts, length).values()
    expected = Counter(fact.kind for fact in facts)
    for kind in ("requests", "reassigned", "matched", "failed"):
        assert sum(getattr(counts, kind) for counts in hours) == expected[kind]
    assert sum(counts.matched for counts in windows) == expected["matched"]
    assert sum(counts.failed for counts in windows) == expected["failed"]
    assert not any(counts.requests or counts.reassigned for counts in windows)
    assert sum(counts.match_sum_ms for counts in hours) == sum(fact.match_ms for fact in facts)
    assert max((counts.match_max_ms for counts in hours), default=0) == max(
        (fact.match_ms for fact in facts), default=0
    )


def test_hour_includes_its_start() -> None:
    one, other = (
        Fact(kind="requests", at=NOON + timedelta(microseconds=late), cell=Cell(1)) for late in (-1, 0)
    )
    assert by_hour([one, other]) == {
        (NOON - timedelta(hours=1), Cell(1)): Counts(requests=1),
        (NOON, Cell(1)): Counts(requests=1),
    }


@pytest.mark.parametrize(
    ("ends", "percent"), [((0, 0), None), ((3, 1), 25.0), ((2, 1), 33.3), ((0, 4), 100.0)]
)
def test_percentages_are_of_ended_searches(ends: tuple[int, int], percent: float | None) -> None:
    assert percent_failed(matched=ends[0], failed=ends[1]) == percent


def test_window_of_a_search_is_that_of_its_end() -> None:
    started = fact_of(matched(at=NOON, waited=timedelta(hours=2), ride_id=uuid4()))
    assert started is not None
    ((window, _),) = by_window([started], timedelta(hours=1)).items()
    assert (window.starts_at, window.ends_at) == (NOON, NOON + timedelta(hours=1))
