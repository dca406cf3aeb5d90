"""Communities as values, with random fences: polygons with holes, and MultiPolygons."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from uuid import UUID

import shapely
from shapely.geometry.base import BaseGeometry

from catraca.domains.communities import Community, CommunityId, Fence, Rules
from catraca.platform.geo import METERS_A_DEGREE

LAT, LON = -12.97, -38.5
START = datetime(2025, 1, 1, tzinfo=UTC)


def community(number: int = 1, *, version: int = 1, retired: bool = False) -> Community:
    rules = Rules(name=f"Vila {number}")
    return Community(
        id=CommunityId(UUID(int=number)),
        version=version,
        changed_at=START,
        rules=replace(rules, retired=retired),
    )


def fence_of(shape: BaseGeometry) -> Fence:
    return Fence(community(), shape)


def moved(lat: float, lon: float, *, north: float = 0, east: float = 0) -> tuple[float, float]:
    """The place moved by these metres."""
    return (
        lat + north / METERS_A_DEGREE,
        lon + east / (METERS_A_DEGREE * math.cos(math.radians(lat))),
    )


def star(dice: Random, lat: float, lon: float, meters: float) -> list[tuple[float, float]]:
    """A GeoJSON ring around a place, with corners at half to all of the distance."""
    corners = dice.randint(3, 12)
    turns = [2 * math.pi * (corner + dice.uniform(0, 0.9)) / corners for corner in range(corners)]
    ring: list[tuple[float, float]] = []
    for turn in turns:
        reach = meters * dice.uniform(0.5, 1)
        north, east = reach * math.sin(turn), reach * math.cos(turn)
        ring.append(moved(lat, lon, north=north, east=east)[::-1])
    return [*ring, ring[0]]


def polygon(dice: Random, lat: float, lon: float, meters: float) -> shapely.Polygon:
    """A polygon with up to two holes near the middle."""
    whole = shapely.Polygon(star(dice, lat, lon, meters))
    for _ in range(dice.randint(0, 2)):
        aside = moved(lat, lon, north=dice.uniform(0, meters / 3), east=dice.uniform(0, meters / 3))
        smaller = whole - shapely.Polygon(star(dice, *aside, meters / 6))
        if isinstance(smaller, shapely.Polygon) and smaller.is_valid:
            whole = smaller
    return whole


def some_fence(dice: Random, lat: float = LAT, lon: float = LON, meters: float = 1000) -> BaseGeometry:
    """A Polygon, or a MultiPolygon of two or three separate ones."""
    if dice.random() < 0.6:
        return polygon(dice, lat, lon, meters)
    places = [moved(lat, lon, east=2.1 * meters * number) for number in range(dice.randint(2, 3))]
    return shapely.MultiPolygon([polygon(dice, *place, meters) for place in places])


def geojson(shape: BaseGeometry) -> str:
    return shapely.to_geojson(shape)


def rectangle(*, north: float, east: float, lat: float = LAT, lon: float = LON) -> shapely.Polygon:
    """A rectangle of this size in metres, with the place in the middle."""
    (south_lat, west_lon), (north_lat, east_lon) = (
        moved(lat, lon, north=side * north / 2, east=side * east / 2) for side in (-1, 1)
    )
    return shapely.box(west_lon, south_lat, east_lon, north_lat)
