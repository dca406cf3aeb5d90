"""The rules of fence crossings: only clear pings count, and noise makes no crossing."""

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from catraca.domains.communities import Fence
from catraca.domains.location.fence_crossings.model import (
    CrossingRules,
    FenceState,
    first_state,
    next_state,
)
from catraca.domains.location.model import Ping
from catraca.platform.geo import Place
from tests.domains.communities.shapes import LAT, LON, START, fence_of, moved, rectangle, some_fence
from tests.support.examples import examples

RULES = CrossingRules(pings=3, dwell=timedelta(seconds=30))
ERROR_METERS = 50.0
# A kilometre wide: the edge is 500 m from its middle.
VILLAGE = fence_of(rectangle(north=1000, east=1000))


def ping_at(north: float, seconds: float, *, error: float = ERROR_METERS) -> Ping:
    """A ping `north` metres north of the village's middle."""
    lat, lon = moved(LAT, LON, north=north)
    return Ping(Place(lat, lon), START + timedelta(seconds=seconds), error)


def after(
    known: FenceState | None,
    pings: Iterable[Ping],
    *,
    fence: Fence = VILLAGE,
    rules: CrossingRules = RULES,
) -> FenceState | None:
    for ping in pings:
        inside = fence.shape.covers(shapely.Point(ping.place.lon, ping.place.lat))
        known = next_state(known, ping, fence, inside=inside, rules=rules)
    return known


def is_in(known: FenceState | None) -> bool:
    return known is not None and known.inside


IN, OUT = 400, 600  # Clear, with an error of 50 m.
BARELY_IN, BARELY_OUT = 480, 520
INSIDE = first_state(ping_at(IN, 0))


def pings(*north: float, every: float = 5) -> list[Ping]:
    return [ping_at(one, every * (number + 1)) for number, one in enumerate(north)]


def test_three_clear_pings_in_a_row_are_a_crossing() -> None:
    for known, other_side in ((None, IN), (INSIDE, OUT)):
        for count, crossed in ((1, False), (2, False), (3, True)):
            found = after(known, pings(*[other_side] * count))
            assert is_in(found) == (is_in(known) != crossed), (other_side, count)


def test_driver_outside_has_no_state() -> None:
    assert after(INSIDE, pings(OUT, OUT, OUT)) is None
    assert after(None, pings(OUT, BARELY_OUT, OUT)) is None
    assert after(None, pings(IN, IN, BARELY_OUT)) is None


def test_staying_inside_changes_nothing() -> None:
    assert after(INSIDE, pings(IN, BARELY_IN, 0, -IN)) is INSIDE


def test_ping_on_the_old_side_restarts_the_count() -> None:
    assert not is_in(after(None, pings(IN, IN, BARELY_OUT, IN, IN)))
    assert is_in(after(None, pings(IN, IN, BARELY_OUT, IN, IN, IN)))
    back = after(INSIDE, pings(OUT, OUT, BARELY_IN))
    assert back == replace(INSIDE, seen_at=START + timedelta(seconds=15))
    assert is_in(after(back, [ping_at(OUT, 20), ping_at(OUT, 25)]))
    assert not is_in(after(back, [ping_at(OUT, 20), ping_at(OUT, 25), ping_at(OUT, 30)]))


def test_unclear_ping_on_the_new_side_is_ignored() -> None:
    assert not is_in(after(None, pings(*[BARELY_IN] * 20)))
    assert is_in(after(INSIDE, pings(*[BARELY_OUT] * 20)))
    assert is_in(after(None, pings(IN, BARELY_IN, IN, BARELY_IN, IN)))
    assert not is_in(after(INSIDE, pings(OUT, BARELY_OUT, OUT, BARELY_OUT, OUT)))


@pytest.mark.parametrize(("seconds", "crossed"), [(29.9, False), (30, True), (300, True)])
def test_two_clear_pings_a_dwell_apart_are_a_crossing(seconds: float, crossed: bool) -> None:
    assert is_in(after(None, [ping_at(IN, 0), ping_at(IN, seconds)])) == crossed
    assert is_in(after(INSIDE, [ping_at(OUT, 1), ping_at(OUT, 1 + seconds)])) == (not crossed)


def test_dwell_starts_at_the_first_clear_ping() -> None:
    patient = CrossingRules(pings=100, dwell=timedelta(seconds=30))
    found = after(None, [ping_at(IN, 0), ping_at(IN, 12), ping_at(IN, 24)], rules=patient)
    assert found is not None
    assert (found.inside, found.crossing_pings, found.crossing_since) == (False, 3, START)
    assert is_in(after(found, [ping_at(IN, 36)], rules=patient))
    anew = after(found, [ping_at(OUT, 30), ping_at(IN, 36)], rules=patient)
    assert not is_in(after(anew, [ping_at(IN, 60)], rules=patient))


def test_one_ping_crosses_only_if_the_rules_ask_for_one() -> None:
    assert not is_in(after(None, [ping_at(IN, 0)], rules=CrossingRules(dwell=timedelta(0))))
    assert is_in(after(None, [ping_at(IN, 0)], rules=CrossingRules(pings=1)))
    assert not is_in(after(INSIDE, [ping_at(OUT, 1)], rules=CrossingRules(pings=1)))


def test_repeated_and_older_pings_do_not_count() -> None:
    twice = after(None, pings(IN, IN))
    assert after(twice, pings(IN, IN) * 5) == twice
    assert after(twice, [ping_at(IN, 1), ping_at(BARELY_OUT, 2), ping_at(OUT, 3)]) == twice
    assert after(INSIDE, [ping_at(OUT, -3), ping_at(OUT, -2), ping_at(OUT, -1), ping_at(OUT, 0)]) == INSIDE


def test_less_accurate_pings_must_be_further_from_the_edge() -> None:
    for error, north, crossed in ((5, 490, True), (5, 496, False), (200, 290, True), (200, 310, False)):
        found = after(None, [ping_at(north, number, error=error) for number in range(3)])
        assert is_in(found) == crossed, (error, north)
    for error, north, crossed in ((5, 506, True), (5, 504, False), (200, 710, True), (200, 690, False)):
        found = after(INSIDE, [ping_at(north, 1 + number, error=error) for number in range(3)])
        assert is_in(found) != crossed, (error, north)


def test_half_way_to_the_middle_is_clear_in_a_narrow_fence() -> None:
    lane = fence_of(rectangle(north=40, east=1000))
    for north, crossed in ((0, True), (9, True), (11, False)):
        assert is_in(after(None, pings(north, north, north), fence=lane)) == crossed
    home = after(None, pings(0, 0, 0), fence=lane)
    for north, crossed in ((60, False), (80, True)):
        found = after(home, [ping_at(north, 20 + number) for number in range(3)], fence=lane)
        assert is_in(found) != crossed, "outside, the whole error counts"


def max_noise(fence: Fence, error: float) -> float:
    """The largest error with which no ping is clear on the wrong side."""
    inner = [fence.margin_at(lat, lon).inner_radius_meters for lat, lon in corners_of(fence)]
    return min(error, min(inner) / 2)


def corners_of(fence: Fence) -> list[tuple[float, float]]:
    return [(lat, lon) for lon, lat in shapely.get_coordinates(fence.shape).tolist()]


def noisy_pings(dice: Random, fence: Fence, error: float, meters: float) -> Iterable[Ping]:
    """Pings of a car that stands near the edge, each with an error up to `meters` in any direction."""
    edge = shapely.boundary(fence.shape).interpolate(dice.random(), normalized=True)
    aside = dice.uniform(0, 2 * error), dice.uniform(0, math.tau)
    lat, lon = moved(edge.y, edge.x, north=aside[0] * math.sin(aside[1]), east=aside[0] * math.cos(aside[1]))
    ways = [dice.uniform(0, math.tau) for _ in range(3)]
    at = START
    while True:
        at += timedelta(seconds=dice.choice([0, 1, 5, 5, 5, 20, 60]))
        way = dice.choice([*ways, aside[1], aside[1] + math.pi, dice.uniform(0, math.tau)])
        # One per cent less: the fence's flat map differs from the globe.
        off = 0.99 * meters * dice.choice([1, 1, 1, dice.random()])
        place = Place(*moved(lat, lon, north=off * math.sin(way), east=off * math.cos(way)))
        yield Ping(place, at, error)


@given(
    st.randoms(use_true_random=False),
    st.floats(50, 3000),
    st.floats(1, 200),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=examples(250), deadline=None)
def test_standing_car_crosses_once_at_most_despite_noise(
    dice: Random, size: float, error: float, pings: int, begins_inside: bool
) -> None:
    fence = fence_of(some_fence(dice, meters=size))
    noisy = noisy_pings(dice, fence, error, max_noise(fence, error))
    known = first_state(next(iter(noisy))) if begins_inside else None
    rules = CrossingRules(pings=pings, dwell=timedelta(seconds=dice.choice([0, 30])))
    sides = [is_in(known)]
    for ping, _ in zip(noisy, range(60), strict=False):
        sides.append(is_in(known := after(known, [ping], fence=fence, rules=rules)))
    changes = sum(before != now for before, now in pairwise(sides))
    assert changes <= 1


@given(st.randoms(use_true_random=False), st.floats(5, 50), st.floats(8, 15))
@settings(max_examples=examples(100), deadline=None)
def test_drive_through_enters_once_and_leaves_once(
    dice: Random, error: float, meters_a_second: float
) -> None:
    """From four kilometres before the middle to four behind it, with noisy pings."""
    fence = fence_of(shapely.convex_hull(shapely.Point(LON, LAT).buffer(0.004) | some_fence(dice)))
    middle = shapely.centroid(fence.shape)
    way = dice.uniform(0, math.tau)
    known: FenceState | None = None
    sides = [False]
    for number in range(int(8000 / meters_a_second / 5)):
        gone = number * 5 * meters_a_second - 4000
        off, aside = dice.uniform(0, error), dice.uniform(0, math.tau)
        place = moved(
            middle.y,
            middle.x,
            north=gone * math.sin(way) + off * math.sin(aside),
            east=gone * math.cos(way) + off * math.cos(aside),
        )
        ping = Ping(Place(*place), START + timedelta(seconds=5 * number), error)
        sides.append(is_in(known := after(known, [ping], fence=fence)))
    assert [now for before, now in pairwise(sides) if before != now] == [True, False]
    assert known is None
