"""Fences like those of communities, and the rate at which the fences around a place are found."""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from uuid import UUID

import shapely

from bench.location.world import place_at
from catraca.domains.communities import Community, CommunityId, FenceIndex, Rules
from catraca.platform.clock import now
from catraca.platform.geo import Place

FENCES = 10_000
SIDE = math.isqrt(FENCES)
# With these sizes some fences overlap, and about half of the map is in no fence.
APART_METERS = 2500.0
RADIUS_METERS = (400.0, 1600.0)
CORNERS = (8, 60)
HOLE_SHARE = 0.2
POINTS = 20_000
LOADED_TIMES = 5


@dataclass(frozen=True, slots=True)
class Plot:
    """One fence and its approximate centre."""

    id: CommunityId
    middle: tuple[float, float]
    geojson: str


@cache
def plots() -> Sequence[Plot]:
    """Fences all over the map, the same at every call."""
    chance = random.Random(8)
    return [_plot(number, chance) for number in range(FENCES)]


def _plot(number: int, chance: random.Random) -> Plot:
    row, column = divmod(number, SIDE)
    east, north = ((place - SIDE / 2) * APART_METERS + chance.uniform(-300, 300) for place in (column, row))
    radius = chance.uniform(*RADIUS_METERS)
    rings = [_ring(east, north, radius, chance)]
    if chance.random() < HOLE_SHARE:
        rings.append(_ring(east, north, radius / 4, chance))
    fence = {"type": "Polygon", "coordinates": rings}
    return Plot(CommunityId(UUID(int=chance.getrandbits(128), version=4)), (east, north), json.dumps(fence))


def _ring(east: float, north: float, radius: float, chance: random.Random) -> list[list[float]]:
    """An uneven ring. It never crosses itself: its corners are in order of angle around the centre."""
    corners = chance.randint(*CORNERS)
    ring: list[list[float]] = []
    for corner in range(corners):
        angle = 2 * math.pi * corner / corners
        reach = radius * chance.uniform(0.7, 1.2)
        place = place_at(east + reach * math.cos(angle), north + reach * math.sin(angle))
        ring.append([place.lon, place.lat])
    return [*ring, ring[0]]


def load_index() -> FenceIndex:
    at = now()
    return FenceIndex.of(
        (Community(id=plot.id, version=1, changed_at=at, rules=Rules(name="Medida")), plot.geojson)
        for plot in plots()
    )


def loading_milliseconds() -> tuple[float, float]:
    """Median and maximum time, from GeoJSON to the first answer of the index."""
    plots()
    taken: list[float] = []
    for _ in range(LOADED_TIMES):
        began = perf_counter()
        load_index().at(0.0, 0.0)
        taken.append((perf_counter() - began) * 1000)
    return sorted(taken)[LOADED_TIMES // 2], max(taken)


class FenceLoad:
    """Looks up places all over the map; half of them are in a fence."""

    def __init__(self) -> None:
        self._index: FenceIndex | None = None
        self._places: list[Place] = []

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        if self._index is None:
            self._index = load_index()
            self._places = _half_inside(self._index)
        at, asked, began = self._index.at, 0, perf_counter()
        while (taken := perf_counter() - began) < seconds:
            for place in self._places:
                at(place.lat, place.lon)
            asked += len(self._places)
        return asked / taken


def _half_inside(index: FenceIndex) -> list[Place]:
    chance, reach = random.Random(9), SIDE / 2 * APART_METERS
    inside: list[Place] = []
    outside: list[Place] = []
    while min(len(inside), len(outside)) < POINTS // 2:
        place = place_at(chance.uniform(-reach, reach), chance.uniform(-reach, reach))
        (inside if index.at(place.lat, place.lon) else outside).append(place)
    places = inside[: POINTS // 2] + outside[: POINTS // 2]
    chance.shuffle(places)
    return places


class PreparedLoad:
    """One prepared fence with the median number of corners; half of the places are inside."""

    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        shapes = sorted(
            (shapely.from_geojson(plot.geojson) for plot in plots()), key=shapely.get_num_coordinates
        )
        shape = shapes[len(shapes) // 2]
        shapely.prepare(shape)
        places = _half_of(shape)
        asked, began = 0, perf_counter()
        while (taken := perf_counter() - began) < seconds:
            for lng, lat in places:
                shapely.contains_xy(shape, lng, lat)
            asked += len(places)
        return asked / taken


def _half_of(shape: shapely.Geometry) -> list[tuple[float, float]]:
    chance = random.Random(9)
    west, south, east, north = shapely.bounds(shape)
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    while min(map(len, found.values())) < POINTS // 2:
        place = (chance.uniform(west, east), chance.uniform(south, north))
        found[bool(shapely.contains_xy(shape, *place))].append(place)
    places = found[True][: POINTS // 2] + found[False][: POINTS // 2]
    chance.shuffle(places)
    return places
