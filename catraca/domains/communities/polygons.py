"""Reads a fence from GeoJSON, or reports where and why it is not a valid fence."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

import shapely
from shapely.geometry.base import BaseGeometry

# Enough to correct at a time; the next request reports the rest.
MAX_FAULTS: Final = 20
MAX_POINTS: Final = 10_000
MAX_RINGS: Final = 500
# About 550 km: a wider fence is a mistake, not a neighbourhood.
MAX_DEGREES: Final = 5
# A hundredth of a square metre: rounded points on a line enclose a little area.
MIN_SQUARE_DEGREES: Final = 1e-12
MIN_RING_POINTS: Final = 4
# The precision of the places that shapely reports: less than a hundredth of a millimetre.
REPORTED_DEGREES: Final = 1e-10
VALID: Final = "Valid Geometry"
# Reasons that shapely gives for a faulty hole; all other reasons mean that rings cross.
HOLE_FAULTS: Final = {
    "Hole lies outside shell": "hole_outside",
    "Holes are nested": "hole_nested",
    "Interior is disconnected": "hole_splits",
}

Place = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at `where`, such as `coordinates[0][2]`; its text in `texts` contains `data`."""

    where: str
    code: str
    data: Mapping[str, object]


class FenceFaulty(ValueError):
    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{len(faults)} faults")
        self.faults = faults


class Faults:
    """Collects faults; raises `FenceFaulty` at the limit."""

    def __init__(self) -> None:
        self._found: list[Fault] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, where: str, code: str, **data: object) -> None:
        self._found.append(Fault(where, code, data))
        if len(self._found) == MAX_FAULTS:
            self.refuse()

    def refuse(self) -> None:
        """Raise `FenceFaulty` if there are faults."""
        if self._found:
            raise FenceFaulty(self._found)


def read_fence(fence: object) -> str:
    """Return the fence as it is stored; raises `FenceFaulty`.

    Rings may turn either way, and points may have an altitude.
    """
    faults = Faults()
    sent = _sent_polygons(fence, faults)
    _check_size(sent, faults)
    polygons = [(at, polygon) for at, rings in sent if (polygon := _read_polygon(at, rings, faults))]
    _find_overlaps(polygons, faults)
    faults.refuse()
    shapes = [polygon for _, polygon in polygons]
    shape = shapes[0] if sent[0][0] == "coordinates" else shapely.MultiPolygon(shapes)
    if _spans_too_much(shape):
        faults.add("coordinates", "too_wide", most=MAX_DEGREES)
    faults.refuse()
    return _written(shape)


def normalized(fence: str) -> str:
    """A valid fence in the form that `read_fence` returns."""
    return _written(shapely.from_geojson(fence))


def _written(shape: BaseGeometry) -> str:
    return shapely.to_geojson(shapely.orient_polygons(shape))


def _sent_polygons(fence: object, faults: Faults) -> list[tuple[str, object]]:
    """Each polygon's path in the GeoJSON, and its unchecked rings."""
    known = cast("dict[str, object]", fence) if isinstance(fence, dict) else {}
    coordinates = known.get("coordinates")
    match known.get("type"):
        case "Polygon":
            return [("coordinates", coordinates)]
        case "MultiPolygon":
            return list(_entries("coordinates", coordinates, faults))
        case _:
            faults.add("type", "not_a_polygon")
            return []


def _entries(where: str, value: object, faults: Faults) -> Iterator[tuple[str, object]]:
    if not isinstance(value, list):
        faults.add(where, "not_a_list")
    elif not value:
        faults.add(where, "list_empty")
    else:
        for number, entry in enumerate(cast("list[object]", value)):
            yield f"{where}[{number}]", entry


def _check_size(polygons: Sequence[tuple[str, object]], faults: Faults) -> None:
    """Checked first, because the other checks take time."""
    rings = [ring for _, polygon in polygons for ring in _list(polygon)]
    if len(rings) > MAX_RINGS:
        faults.add("coordinates", "too_many_rings", most=MAX_RINGS)
    if sum(len(_list(ring)) for ring in rings) > MAX_POINTS:
        faults.add("coordinates", "too_many_points", most=MAX_POINTS)
    faults.refuse()


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _read_polygon(where: str, rings: object, faults: Faults) -> shapely.Polygon | None:
    """None if its outer ring or a hole is faulty."""
    before = len(faults)
    read = [(at, _read_ring(at, ring, faults)) for at, ring in _entries(where, rings, faults)]
    if not read or (shell := read[0][1]) is None:
        return None
    places = [at for at, ring in read[1:] if ring]
    outer, holes = shapely.LinearRing(shell), [shapely.LinearRing(ring) for _, ring in read[1:] if ring]

    def around(left: Sequence[int]) -> shapely.Polygon:
        return shapely.Polygon(outer, [holes[number] for number in left])

    for number, reason, lng, lat in _conflicts(holes, around):
        faults.add(places[number], HOLE_FAULTS.get(reason, "hole_crosses"), lng=lng, lat=lat)
    return around(range(len(holes))) if len(faults) == before else None


def _find_overlaps(polygons: Sequence[tuple[str, shapely.Polygon]], faults: Faults) -> None:
    def together(left: Sequence[int]) -> BaseGeometry:
        return shapely.MultiPolygon([polygons[number][1] for number in left])

    for number, _, lng, lat in _conflicts([polygon.boundary for _, polygon in polygons], together):
        faults.add(polygons[number][0], "polygons_overlap", lng=lng, lat=lat)


def _read_ring(where: str, ring: object, faults: Faults) -> list[Place] | None:
    before = len(faults)
    sent = list(_entries(where, ring, faults))
    places = [place for at, position in sent if (place := _read_place(at, position, faults))]
    if len(faults) > before:
        return None
    if len(places) < MIN_RING_POINTS:
        faults.add(where, "ring_too_short")
    elif places[0] != places[-1]:
        faults.add(sent[-1][0], "ring_not_closed")
    elif leap := next((at for at, (a, b) in enumerate(pairwise(places), 1) if abs(a[0] - b[0]) > 180), None):
        faults.add(sent[leap][0], "crosses_antimeridian")
    elif shapely.convex_hull(shapely.LineString(places)).area < MIN_SQUARE_DEGREES:
        faults.add(where, "ring_without_area")
    elif (reason := shapely.is_valid_reason(shapely.Polygon(places))) != VALID:
        _, lng, lat = _parsed(reason)
        faults.add(where, "ring_crosses_itself", lng=lng, lat=lat)
    return places if len(faults) == before else None


def _read_place(where: str, position: object, faults: Faults) -> Place | None:
    """A longitude and a latitude. Swapped ones are detected only where one is out of range."""
    numbers = _list(position)
    if len(numbers) not in (2, 3):
        faults.add(where, "not_a_position")
        return None
    if not all(_is_number(number) for number in numbers):
        faults.add(where, "not_a_number")
        return None
    lng, lat = cast("list[float]", numbers[:2])
    if abs(lng) <= 90 < abs(lat) <= 180:
        faults.add(where, "looks_swapped")
    elif abs(lng) > 180:
        faults.add(where, "longitude_out_of_range")
    elif abs(lat) > 90:
        faults.add(where, "latitude_out_of_range")
    else:
        return float(lng), float(lat)
    return None


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _conflicts(
    edges: Sequence[BaseGeometry], whole: Callable[[Sequence[int]], BaseGeometry]
) -> Iterator[tuple[int, str, float, float]]:
    """The parts to remove until the rest is a valid whole: number, reason, and the place of the conflict."""
    left = list(range(len(edges)))
    while left and (reason := shapely.is_valid_reason(whole(left))) != VALID:
        what, lng, lat = _parsed(reason)
        place = shapely.Point(lng, lat)
        away = {number: edges[number].distance(place) for number in left}
        there = min(away.values()) + REPORTED_DEGREES
        # Of two that cross, the later one is at fault.
        conflict = max(number for number in left if away[number] <= there)
        yield conflict, what, lng, lat
        left.remove(conflict)


def _parsed(reason: str) -> tuple[str, float, float]:
    """Reason, longitude and latitude from a text like `Self-intersection[-46.63 -23.55]`."""
    found = re.fullmatch(r"(.+)\[(\S+) (\S+)\]", reason)
    assert found, reason
    return found[1], float(found[2]), float(found[3])


def _spans_too_much(shape: BaseGeometry) -> bool:
    """A fence that crosses the antimeridian is measured across it."""
    places: list[list[float]] = shapely.get_coordinates(shape).tolist()
    lngs, lats = [place[0] for place in places], [place[1] for place in places]
    across = [lng % 360 for lng in lngs]
    wide = min(max(lngs) - min(lngs), max(across) - min(across))
    return max(wide, max(lats) - min(lats)) > MAX_DEGREES
