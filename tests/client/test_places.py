"""The city's map: roads lead everywhere, and nobody flies."""

import random
from itertools import pairwise

import pytest

from catraca.client.demo.places import PLACES, ROADS, Spot, advance, route, some_spot, some_trip

SEEDS = range(200)


def test_every_place_is_reached_from_every_other_by_roads() -> None:
    roads = {frozenset({PLACES[one], PLACES[other]}) for one, other in ROADS}
    for begin in PLACES.values():
        for end in PLACES.values():
            way = [begin, *route(begin, end)]
            assert way[-1] == end
            assert all(frozenset(step) in roads for step in pairwise(way) if step[0] != step[1])


@pytest.mark.parametrize("meters", [1.0, 90.0, 1500.0, 100_000.0])
def test_one_moves_as_far_as_one_drives_and_arrives_exactly(meters: float) -> None:
    chance = random.Random(7)
    spot, end = some_trip(chance)
    way = route(spot, end)
    far = sum(one.meters_to(other) for one, other in pairwise([spot, *way]))
    steps = 0
    while way:
        moved, way = advance(spot, way, meters)
        assert spot.meters_to(moved) <= meters * 1.001
        spot, steps = moved, steps + 1
    assert spot == end
    assert abs(steps - far / meters) <= 1.01


def test_trips_lead_somewhere_else_within_the_city() -> None:
    for seed in SEEDS:
        begin, end = some_trip(random.Random(seed))
        assert 50 < begin.meters_to(end) < 7000


def test_headings_are_those_of_a_compass() -> None:
    here = Spot(-12.98, -38.50)
    for degrees, east, north in ((0, 0, 100), (90, 100, 0), (180, 0, -100), (270, -100, 0)):
        there = here.moved(east_meters=east, north_meters=north)
        assert here.heading_to(there) == pytest.approx(degrees, abs=0.1)
        assert here.meters_to(there) == pytest.approx(100, rel=0.01)


def test_the_same_seed_is_the_same_city() -> None:
    assert some_spot(random.Random("3 driver 0")) == some_spot(random.Random("3 driver 0"))
