"""The city's map: every place is reachable, and positions follow the roads."""

import random
from itertools import pairwise

import pytest

from catraca.client.demo.places import PLACES, ROADS, Spot, advance, random_spot, random_trip, route

SEEDS = range(200)


def test_every_place_is_reachable_from_every_other() -> None:
    roads = {frozenset({PLACES[one], PLACES[other]}) for one, other in ROADS}
    for begin in PLACES.values():
        for end in PLACES.values():
            way = [begin, *route(begin, end)]
            assert way[-1] == end
            assert all(frozenset(step) in roads for step in pairwise(way) if step[0] != step[1])


@pytest.mark.parametrize("meters", [1.0, 90.0, 1500.0, 100_000.0])
def test_advance_moves_the_given_distance_and_arrives_exactly(meters: float) -> None:
    chance = random.Random(7)
    spot, end = random_trip(chance)
    way = route(spot, end)
    far = sum(one.meters_to(other) for one, other in pairwise([spot, *way]))
    steps = 0
    while way:
        moved, way = advance(spot, way, meters)
        assert spot.meters_to(moved) <= meters * 1.001
        spot, steps = moved, steps + 1
    assert spot == end
    assert abs(steps - far / meters) <= 1.01


def test_trips_end_elsewhere_in_the_city() -> None:
    for seed in SEEDS:
        begin, end = random_trip(random.Random(seed))
        assert 50 < begin.meters_to(end) < 7000


def test_heading_is_a_compass_angle() -> None:
    here = Spot(-12.98, -38.50)
    for degrees, east, north in ((0, 0, 100), (90, 100, 0), (180, 0, -100), (270, -100, 0)):
        there = here.moved(east_meters=east, north_meters=north)
        assert here.heading_to(there) == pytest.approx(degrees, abs=0.1)
        assert here.meters_to(there) == pytest.approx(100, rel=0.01)


def test_same_seed_gives_the_same_city() -> None:
    assert random_spot(random.Random("3 driver 0")) == random_spot(random.Random("3 driver 0"))
