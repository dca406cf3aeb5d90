"""Geography: places, distances, and estimated trips by road."""

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
from pydantic import Field

EARTH_RADIUS_METERS = 6_371_009
METERS_A_DEGREE = 111_195.0
# Roads are longer than the straight line: by a factor of 1.2 to 1.4 in measured city networks.
DETOUR_PERCENT = 130
CITY_SPEED_METERS_PER_HOUR = 25_000

Latitude = Annotated[float, Field(strict=True, ge=-90, le=90, allow_inf_nan=False)]
Longitude = Annotated[float, Field(strict=True, ge=-180, le=180, allow_inf_nan=False)]


class Place(msgspec.Struct, frozen=True, gc=False):
    """Degrees, WGS 84. A struct, because there are many: it is made five times as fast as a dataclass."""

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


# A grid of squares, a hundredth of a degree wide: rows from south to north, columns from west to east.
CELLS_A_DEGREE = 100
CELLS_A_ROW = 360 * CELLS_A_DEGREE
# Less than the true length, so that the cells around a place are never too few.
MIN_METERS_A_DEGREE = 111_000.0


def cell_of(place: Place) -> int:
    """The number of the cell that a place is in."""
    return _row(place.lat) * CELLS_A_ROW + _column(place.lon)


def cells_around(place: Place, radius_meters: float) -> list[tuple[int, int]]:
    """Ranges of cells, ends included, that contain every place within the radius, and some beyond it."""
    north = radius_meters / MIN_METERS_A_DEGREE
    south_edge, north_edge = max(-90.0, place.lat - north), min(90.0, place.lat + north)
    # Meridians converge towards the poles: the edge nearer to a pole needs the most degrees.
    narrowest = math.cos(math.radians(min(89.9, max(abs(south_edge), abs(north_edge)))))
    east = north / narrowest
    if east >= 179:
        spans = [(0, CELLS_A_ROW - 1)]
    else:
        first, last = _column(place.lon - east), _column(place.lon + east)
        spans = [(first, last)] if first <= last else [(0, last), (first, CELLS_A_ROW - 1)]
    return [
        (row * CELLS_A_ROW + first, row * CELLS_A_ROW + last)
        for row in range(_row(south_edge), _row(north_edge) + 1)
        for first, last in spans
    ]


def _row(lat: float) -> int:
    return min(180 * CELLS_A_DEGREE - 1, math.floor((lat + 90) * CELLS_A_DEGREE))


def _column(lon: float) -> int:
    """180° east is the same column as 180° west."""
    return math.floor((lon + 180) * CELLS_A_DEGREE) % CELLS_A_ROW
