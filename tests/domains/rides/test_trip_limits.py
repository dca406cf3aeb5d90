"""Bounds of a plausible trip."""

from datetime import timedelta

from catraca.domains.rides.model import TripLimits
from catraca.domains.rides.tracks.model import Track
from catraca.domains.rides.trips.model import farthest_meters, shortest_seconds

LIMITS = TripLimits(longest=timedelta(hours=6), top_speed_kmh=120)


def test_farthest_distance_is_the_smaller_bound() -> None:
    assert farthest_meters(0, Track(), LIMITS) == 500
    assert farthest_meters(3600, Track(), LIMITS) == 120_500
    assert farthest_meters(3600, Track(meters=10_000, covered_seconds=3600), LIMITS) == 15_500
    assert farthest_meters(3600, Track(meters=10_000, covered_seconds=1800), LIMITS) == 75_500
    assert farthest_meters(10, Track(meters=10_000, covered_seconds=10), LIMITS) == 833


def test_shortest_time_is_the_straight_line_at_top_speed() -> None:
    assert shortest_seconds(0, LIMITS) == shortest_seconds(650, LIMITS) == 0
    assert shortest_seconds(13_650, LIMITS) == 300
