"""Fares: whole cents, monotonic, and at least the minimum."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catraca.domains.fares import Tariff, fare_cents
from catraca.platform.geo import Trip

TARIFF = Tariff(base_cents=500, per_km_cents=180, per_minute_cents=30, minimum_cents=800, currency="BRL")
cents = st.integers(0, 1_000_000)
tariffs = st.builds(
    Tariff,
    base_cents=cents,
    per_km_cents=cents,
    per_minute_cents=cents,
    minimum_cents=st.integers(0, 10_000_000),
    currency=st.just("BRL"),
)
trips = st.builds(Trip, st.integers(0, 30_000_000), st.integers(0, 5_000_000))


def exactly(tariff: Tariff, trip: Trip) -> Fraction:
    return (
        tariff.base_cents
        + Fraction(tariff.per_km_cents * trip.distance_meters, 1000)
        + Fraction(tariff.per_minute_cents * trip.duration_seconds, 60)
    )


@pytest.mark.parametrize(
    ("trip", "fare"),
    [
        (Trip(0, 0), 800),  # the minimum
        (Trip(10_000, 0), 2300),  # 5.00 and ten times 1.80
        (Trip(0, 1200), 1100),  # 5.00 and twenty times 0.30
        (Trip(6390, 920), 2110),  # 500 + 1150.2 + 460
        (Trip(1669, 0), 800),  # 500 + 300.42
        (Trip(1675, 0), 802),  # 801.5: half a cent goes up
        (Trip(1725, 0), 811),  # 810.5: half a cent always goes up
    ],
)
def test_fare_is_base_distance_and_time(trip: Trip, fare: int) -> None:
    assert fare_cents(TARIFF, trip) == fare


@given(tariffs, trips)
def test_fare_is_rounded_once_half_a_cent_up(tariff: Tariff, trip: Trip) -> None:
    fare = fare_cents(replace(tariff, minimum_cents=0), trip)
    assert type(fare) is int
    assert -Fraction(1, 2) < fare - exactly(tariff, trip) <= Fraction(1, 2)


@given(tariffs, trips)
def test_fare_is_never_below_the_minimum(tariff: Tariff, trip: Trip) -> None:
    fare = fare_cents(tariff, trip)
    assert fare >= tariff.minimum_cents
    assert fare in (tariff.minimum_cents, fare_cents(replace(tariff, minimum_cents=0), trip))


@given(tariffs, trips, st.integers(0, 1_000_000), st.integers(0, 100_000))
def test_longer_trips_never_cost_less(tariff: Tariff, trip: Trip, further: int, longer: int) -> None:
    fare = fare_cents(tariff, trip)
    assert fare_cents(tariff, replace(trip, distance_meters=trip.distance_meters + further)) >= fare
    assert fare_cents(tariff, replace(trip, duration_seconds=trip.duration_seconds + longer)) >= fare


@given(tariffs, trips, st.integers(0, 100))
def test_fare_in_pieces_differs_only_by_rounding(tariff: Tariff, trip: Trip, pieces: int) -> None:
    """Rounding errors do not add up beyond the rounding of each piece."""
    per_way = replace(tariff, base_cents=0, minimum_cents=0)
    whole = fare_cents(per_way, Trip(trip.distance_meters * pieces, trip.duration_seconds * pieces))
    assert abs(whole - pieces * fare_cents(per_way, trip)) <= (pieces + 1) // 2 + 1
