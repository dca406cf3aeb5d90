"""Distances and estimated trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.platform.geo import Place, Trip, estimate_trip, straight_line_meters

places = st.builds(Place, st.floats(-90, 90), st.floats(-180, 180))


@given(places, places)
def test_trip_is_whole_meters_and_seconds_in_both_directions(start: Place, end: Place) -> None:
    there, back = estimate_trip(start, end), estimate_trip(end, start)
    assert type(there.distance_meters) is type(there.duration_seconds) is int
    assert there.distance_meters >= 0
    assert abs(there.distance_meters - back.distance_meters) <= 2
    # Half of the earth's circumference, plus the detour.
    assert there.distance_meters <= 26_100_000


@given(places)
def test_trip_to_the_same_place_is_zero(place: Place) -> None:
    assert estimate_trip(place, place) == Trip(0, 0)


@pytest.mark.parametrize(
    ("start", "end", "kilometers"),
    [
        (Place(0, 0), Place(0, 1), 111.195),
        (Place(0, 0), Place(90, 0), 10_007.557),
        (Place(0, 0), Place(0, 180), 20_015.115),
        (Place(0, 179.5), Place(0, -179.5), 111.195),  # across the date line
        (Place(90, 0), Place(90, 180), 0),  # all meridians meet at the pole
    ],
)
def test_known_distances(start: Place, end: Place, kilometers: float) -> None:
    assert straight_line_meters(start, end) == pytest.approx(kilometers * 1000, abs=2)
