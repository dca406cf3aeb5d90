"""Who has crossed a fence's edge: once, however a phone wavers, and not before it is clear."""

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

RULES = CrossingRules(pings=3, dwell=timedelta(seconds=30))
BLUR = 50.0
# A kilometre wide: the edge is 500 m from its middle.
VILLAGE = fence_of(rectangle(north=1000, east=1000))


def seen(north: float, seconds: float, *, blur: float = BLUR) -> Ping:
    """So far to the north of the village's middle."""
    lat, lon = moved(LAT, LON, north=north)
    return Ping(Place(lat, lon), START + timedelta(seconds=seconds), blur)


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


IN, OUT = 400, 600  # clearly, by a blur of 50 m
BARELY_IN, BARELY_OUT = 480, 520
AT_HOME = first_state(seen(IN, 0))


def drive(*north: float, every: float = 5) -> list[Ping]:
    return [seen(one, every * (number + 1)) for number, one in enumerate(north)]


def test_three_clear_sightings_in_a_row_are_a_crossing() -> None:
    for known, other_side in ((None, IN), (AT_HOME, OUT)):
        for count, crossed in ((1, False), (2, False), (3, True)):
            found = after(known, drive(*[other_side] * count))
            assert is_in(found) == (is_in(known) != crossed), (other_side, count)


def test_whoever_has_left_or_never_came_leaves_no_trace() -> None:
    assert after(AT_HOME, drive(OUT, OUT, OUT)) is None
    assert after(None, drive(OUT, BARELY_OUT, OUT)) is None
    assert after(None, drive(IN, IN, BARELY_OUT)) is None


def test_whoever_stays_changes_nothing() -> None:
    assert after(AT_HOME, drive(IN, BARELY_IN, 0, -IN)) is AT_HOME


def test_a_look_back_at_the_old_side_begins_anew_however_unclear() -> None:
    assert not is_in(after(None, drive(IN, IN, BARELY_OUT, IN, IN)))
    assert is_in(after(None, drive(IN, IN, BARELY_OUT, IN, IN, IN)))
    back = after(AT_HOME, drive(OUT, OUT, BARELY_IN))
    assert back == replace(AT_HOME, seen_at=START + timedelta(seconds=15))
    assert is_in(after(back, [seen(OUT, 20), seen(OUT, 25)]))
    assert not is_in(after(back, [seen(OUT, 20), seen(OUT, 25), seen(OUT, 30)]))


def test_what_is_unclear_on_the_new_side_neither_counts_nor_begins_anew() -> None:
    assert not is_in(after(None, drive(*[BARELY_IN] * 20)))
    assert is_in(after(AT_HOME, drive(*[BARELY_OUT] * 20)))
    assert is_in(after(None, drive(IN, BARELY_IN, IN, BARELY_IN, IN)))
    assert not is_in(after(AT_HOME, drive(OUT, BARELY_OUT, OUT, BARELY_OUT, OUT)))


@pytest.mark.parametrize(("seconds", "crossed"), [(29.9, False), (30, True), (300, True)])
def test_two_clear_sightings_a_dwell_apart_will_do(seconds: float, crossed: bool) -> None:
    assert is_in(after(None, [seen(IN, 0), seen(IN, seconds)])) == crossed
    assert is_in(after(AT_HOME, [seen(OUT, 1), seen(OUT, 1 + seconds)])) == (not crossed)


def test_the_dwell_is_from_the_first_clear_sighting_to_the_newest() -> None:
    patient = CrossingRules(pings=100, dwell=timedelta(seconds=30))
    found = after(None, [seen(IN, 0), seen(IN, 12), seen(IN, 24)], rules=patient)
    assert found is not None
    assert (found.inside, found.crossing_pings, found.crossing_since) == (False, 3, START)
    assert is_in(after(found, [seen(IN, 36)], rules=patient))
    anew = after(found, [seen(OUT, 30), seen(IN, 36)], rules=patient)
    assert not is_in(after(anew, [seen(IN, 60)], rules=patient))


def test_one_sighting_is_never_a_crossing_unless_one_is_enough() -> None:
    assert not is_in(after(None, [seen(IN, 0)], rules=CrossingRules(dwell=timedelta(0))))
    assert is_in(after(None, [seen(IN, 0)], rules=CrossingRules(pings=1)))
    assert not is_in(after(AT_HOME, [seen(OUT, 1)], rules=CrossingRules(pings=1)))


def test_the_same_ping_again_counts_once_and_an_older_one_not_at_all() -> None:
    twice = after(None, drive(IN, IN))
    assert after(twice, drive(IN, IN) * 5) == twice
    assert after(twice, [seen(IN, 1), seen(BARELY_OUT, 2), seen(OUT, 3)]) == twice
    assert after(AT_HOME, [seen(OUT, -3), seen(OUT, -2), seen(OUT, -1), seen(OUT, 0)]) == AT_HOME


def test_the_less_a_phone_knows_the_further_it_must_be() -> None:
    for blur, north, crossed in ((5, 490, True), (5, 496, False), (200, 290, True), (200, 310, False)):
        found = after(None, [seen(north, number, blur=blur) for number in range(3)])
        assert is_in(found) == crossed, (blur, north)
    for blur, north, crossed in ((5, 506, True), (5, 504, False), (200, 710, True), (200, 690, False)):
        found = after(AT_HOME, [seen(north, 1 + number, blur=blur) for number in range(3)])
        assert is_in(found) != crossed, (blur, north)


def test_in_a_narrow_fence_half_way_to_its_middle_is_clear() -> None:
    lane = fence_of(rectangle(north=40, east=1000))
    for north, crossed in ((0, True), (9, True), (11, False)):
        assert is_in(after(None, drive(north, north, north), fence=lane)) == crossed
    home = after(None, drive(0, 0, 0), fence=lane)
    for north, crossed in ((60, False), (80, True)):
        found = after(home, [seen(north, 20 + number) for number in range(3)], fence=lane)
        assert is_in(found) != crossed, "outside it is as far as everywhere"


def most_noise(fence: Fence, blur: float) -> float:
    """How wrong a phone may be without ever being clearly wrong, in any part of the fence."""
    inner = [fence.margin_at(lat, lon).inner_radius_meters for lat, lon in corners_of(fence)]
    return min(blur, min(inner) / 2)


def corners_of(fence: Fence) -> list[tuple[float, float]]:
    return [(lat, lon) for lon, lat in shapely.get_coordinates(fence.shape).tolist()]


def wavering(dice: Random, fence: Fence, blur: float, meters: float) -> Iterable[Ping]:
    """Of a car that stands near the edge: each as wrong as may be, this way and that way, or anyhow."""
    edge = shapely.boundary(fence.shape).interpolate(dice.random(), normalized=True)
    aside = dice.uniform(0, 2 * blur), dice.uniform(0, math.tau)
    lat, lon = moved(edge.y, edge.x, north=aside[0] * math.sin(aside[1]), east=aside[0] * math.cos(aside[1]))
    ways = [dice.uniform(0, math.tau) for _ in range(3)]
    at = START
    while True:
        at += timedelta(seconds=dice.choice([0, 1, 5, 5, 5, 20, 60]))
        way = dice.choice([*ways, aside[1], aside[1] + math.pi, dice.uniform(0, math.tau)])
        # Not all of it: on the globe metres are a little longer or shorter than on the fence's flat map.
        off = 0.99 * meters * dice.choice([1, 1, 1, dice.random()])
        place = Place(*moved(lat, lon, north=off * math.sin(way), east=off * math.cos(way)))
        yield Ping(place, at, blur)


@given(
    st.randoms(use_true_random=False),
    st.floats(50, 3000),
    st.floats(1, 200),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=250, deadline=None)
def test_noise_around_a_car_that_stands_makes_one_change_at_most(
    dice: Random, size: float, blur: float, pings: int, begins_inside: bool
) -> None:
    fence = fence_of(some_fence(dice, meters=size))
    noisy = wavering(dice, fence, blur, most_noise(fence, blur))
    known = first_state(next(iter(noisy))) if begins_inside else None
    rules = CrossingRules(pings=pings, dwell=timedelta(seconds=dice.choice([0, 30])))
    sides = [is_in(known)]
    for ping, _ in zip(noisy, range(60), strict=False):
        sides.append(is_in(known := after(known, [ping], fence=fence, rules=rules)))
    changes = sum(before != now for before, now in pairwise(sides))
    assert changes <= 1


@given(st.randoms(use_true_random=False), st.floats(5, 50), st.floats(8, 15))
@settings(max_examples=100, deadline=None)
def test_a_drive_straight_through_enters_once_and_leaves_once(
    dice: Random, blur: float, meters_a_second: float
) -> None:
    """Past its middle, from a kilometre before it to a kilometre behind it, with a phone that wavers."""
    fence = fence_of(shapely.convex_hull(shapely.Point(LON, LAT).buffer(0.004) | some_fence(dice)))
    middle = shapely.centroid(fence.shape)
    way = dice.uniform(0, math.tau)
    known: FenceState | None = None
    sides = [False]
    for number in range(int(8000 / meters_a_second / 5)):
        gone = number * 5 * meters_a_second - 4000
        off, aside = dice.uniform(0, blur), dice.uniform(0, math.tau)
        place = moved(
            middle.y,
            middle.x,
            north=gone * math.sin(way) + off * math.sin(aside),
            east=gone * math.cos(way) + off * math.cos(aside),
        )
        ping = Ping(Place(*place), START + timedelta(seconds=5 * number), blur)
        sides.append(is_in(known := after(known, [ping], fence=fence)))
    assert [now for before, now in pairwise(sides) if before != now] == [True, False]
    assert known is None
