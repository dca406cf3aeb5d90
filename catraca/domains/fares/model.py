"""Fares as values: whole cents, no clock, no rounding surprises."""

import math
from dataclasses import dataclass, replace

from catraca.domains.communities import Prices

EARTH_RADIUS_METERS = 6_371_009
# Streets are no straight lines. Measured city networks lie between 1.2 and 1.4.
DETOUR_PERCENT = 130
CITY_SPEED_METERS_PER_HOUR = 25_000


@dataclass(frozen=True, slots=True)
class Place:
    """Degrees, WGS 84."""

    lat: float
    lon: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """What is charged: a base, the way, the time; and never less than the minimum."""

    base_cents: int
    per_km_cents: int
    per_minute_cents: int
    minimum_cents: int
    currency: str


def tariff_with(prices: Prices | None, general: Tariff) -> Tariff:
    """A community's own prices where it has some; the currency is everybody's."""
    if prices is None:
        return general
    return replace(
        general,
        base_cents=prices.base_cents,
        per_km_cents=prices.per_km_cents,
        per_minute_cents=prices.per_minute_cents,
        minimum_cents=prices.minimum_cents,
    )


@dataclass(frozen=True, slots=True)
class Trip:
    distance_meters: int
    duration_seconds: int


def fare_cents(tariff: Tariff, trip: Trip) -> int:
    """The fare, rounded once, at the end, half a cent up."""
    # In units of 1/60000 cent: a metre is a thousandth of a kilometre, a second a sixtieth of a minute.
    exact = (
        tariff.base_cents * 60_000
        + tariff.per_km_cents * trip.distance_meters * 60
        + tariff.per_minute_cents * trip.duration_seconds * 1000
    )
    return max(tariff.minimum_cents, (exact + 30_000) // 60_000)


def estimate_trip(start: Place, end: Place) -> Trip:
    """How far and how long by road, guessed from the straight line."""
    meters = round(straight_line_meters(start, end)) * DETOUR_PERCENT // 100
    return Trip(meters, meters * 3600 // CITY_SPEED_METERS_PER_HOUR)


def straight_line_meters(start: Place, end: Place) -> float:
    """Along a great circle (haversine)."""
    north, east = math.radians(end.lat - start.lat), math.radians(end.lon - start.lon)
    half = (
        math.sin(north / 2) ** 2
        + math.cos(math.radians(start.lat)) * math.cos(math.radians(end.lat)) * math.sin(east / 2) ** 2
    )
    return 2 * EARTH_RADIUS_METERS * math.asin(math.sqrt(min(1.0, half)))
