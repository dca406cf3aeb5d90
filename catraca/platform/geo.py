"""Geography: places, distances, and estimated trips by road."""

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

EARTH_RADIUS_METERS = 6_371_009
METERS_A_DEGREE = 111_195.0
# Roads are longer than the straight line: by a factor of 1.2 to 1.4 in measured city networks.
DETOUR_PERCENT = 130
CITY_SPEED_METERS_PER_HOUR = 25_000

Latitude = Annotated[float, Field(strict=True, ge=-90, le=90, allow_inf_nan=False)]
Longitude = Annotated[float, Field(strict=True, ge=-180, le=180, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Place:
    """Degrees, WGS 84."""

    lat: float
    lon: float


@dataclass(frozen=True, slots=True)
class Trip:
    distance_meters: int
    duration_seconds: int


def straight_line_meters(start: Place, end: Place) -> float:
    """Return the length of the great circle between two places (haversine)."""
    north, east = math.radians(end.lat - start.lat), math.radians(end.lon - start.lon)
    half = (
        math.sin(north / 2) ** 2
        + math.cos(math.radians(start.lat)) * math.cos(math.radians(end.lat)) * math.sin(east / 2) ** 2
    )
    return 2 * EARTH_RADIUS_METERS * math.asin(math.sqrt(min(1.0, half)))


def estimate_trip(start: Place, end: Place) -> Trip:
    """Estimate distance and duration by road from the straight line."""
    meters = round(straight_line_meters(start, end)) * DETOUR_PERCENT // 100
    return Trip(meters, meters * 3600 // CITY_SPEED_METERS_PER_HOUR)
