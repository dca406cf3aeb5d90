"""Distances, estimated trips, and cells."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from catraca.platform.geo import Place, Trip, cell_of, cells_around, estimate_trip, straight_line_meters

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


middles = st.builds(Place, st.floats(-85, 85), st.floats(-180, 180))


@given(middles, st.floats(1, 50_000), st.floats(0, 1), st.floats(-1, 1), st.floats(-1, 1))
@example(Place(0, 180.0), 50_000, 1, 0, 1)
@example(Place(0, -180.0), 50_000, 1, 0, -1)
@example(Place(85.0, 0), 50_000, 1, 1, 1)
def test_cells_around_cover_every_place_within_the_radius(
    middle: Place, radius_meters: float, far: float, north: float, east: float
) -> None:
    degrees = radius_meters / 111_195 * far
    other = Place(
        max(-85.0, min(85.0, middle.lat + north * degrees)),
        (middle.lon + east * degrees * 12 + 180) % 360 - 180,
    )
    assume(straight_line_meters(middle, other) <= radius_meters)
    cell = cell_of(other)
    assert any(first <= cell <= last for first, last in cells_around(middle, radius_meters))
