"""Fences from GeoJSON: faults with their places, and valid fences stored point for point."""

import json
import math
from typing import Any

import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from catraca.domains.communities.polygons import (
    MAX_FAULTS,
    MAX_POINTS,
    MAX_RINGS,
    FenceFaulty,
    normalized,
    read_fence,
)
from catraca.platform.texts import LANGUAGES, text, words
from tests.domains.communities.places import ring, square, valid_fences
from tests.support.examples import examples

WEST, SOUTH = -46.63, -23.55


def polygon(*rings: object) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": list(rings)}


def multi(*polygons: object) -> dict[str, Any]:
    return {"type": "MultiPolygon", "coordinates": list(polygons)}


def points(*places: tuple[float, float]) -> list[list[float]]:
    """In thousandths of a degree from the square's south-west corner."""
    return [[WEST + east / 1000, SOUTH + north / 1000] for east, north in places]


def hole(east: float, north: float, size: float = 2) -> list[list[float]]:
    e, n = east + size, north + size
    return points((east, north), (e, north), (e, n), (east, n), (east, north))


def faults_of(fence: object) -> list[tuple[str, str]]:
    with pytest.raises(FenceFaulty) as refused:
        read_fence(fence)
    for fault in refused.value.faults:
        for language in LANGUAGES:
            assert text(f"fences.{fault.code}", language, fault.data)
    return [(fault.where, fault.code) for fault in refused.value.faults]


SQUARE = ring(SOUTH, WEST)
BOWTIE = points((0, 0), (10, 10), (10, 0), (0, 10), (0, 0))
FLAT = points((0, 0), (5, 5), (10, 10), (0, 0))
LEAP = [[179.9, 0], [-179.9, 0], [-179.9, 0.1], [179.9, 0.1], [179.9, 0]]
FAULTY: list[tuple[object, list[tuple[str, str]]]] = [
    (None, [("type", "not_a_polygon")]),
    ("Polygon", [("type", "not_a_polygon")]),
    ([], [("type", "not_a_polygon")]),
    ({}, [("type", "not_a_polygon")]),
    ({"type": "Point", "coordinates": [0, 0]}, [("type", "not_a_polygon")]),
    ({"type": ["Polygon"], "coordinates": [SQUARE]}, [("type", "not_a_polygon")]),
    ({"type": "Feature", "geometry": square()}, [("type", "not_a_polygon")]),
    ({"type": "Polygon"}, [("coordinates", "not_a_list")]),
    ({"type": "MultiPolygon", "coordinates": {}}, [("coordinates", "not_a_list")]),
    (polygon(), [("coordinates", "list_empty")]),
    (multi(), [("coordinates", "list_empty")]),
    (multi([SQUARE], []), [("coordinates[1]", "list_empty")]),
    (polygon([]), [("coordinates[0]", "list_empty")]),
    (polygon("ring"), [("coordinates[0]", "not_a_list")]),
    (multi(SQUARE), [(f"coordinates[0][{n}][{m}]", "not_a_position") for n in range(5) for m in range(2)]),
    (polygon([7, *SQUARE]), [("coordinates[0][0]", "not_a_position")]),
    (polygon([[0], *SQUARE]), [("coordinates[0][0]", "not_a_position")]),
    (polygon([[0, 0, 0, 0], *SQUARE]), [("coordinates[0][0]", "not_a_position")]),
    (polygon([["0", 0], *SQUARE]), [("coordinates[0][0]", "not_a_number")]),
    (polygon([[True, 0], *SQUARE]), [("coordinates[0][0]", "not_a_number")]),
    (polygon([[None, 0], *SQUARE]), [("coordinates[0][0]", "not_a_number")]),
    (polygon([[math.nan, 0], *SQUARE]), [("coordinates[0][0]", "not_a_number")]),
    (polygon([[0, math.inf], *SQUARE]), [("coordinates[0][0]", "not_a_number")]),
    (polygon([[0, 0, "high"], *SQUARE]), [("coordinates[0][0]", "not_a_number")]),
    (polygon([*SQUARE, [180.1, 0]]), [("coordinates[0][5]", "longitude_out_of_range")]),
    (polygon([*SQUARE, [10**400, 0]]), [("coordinates[0][5]", "longitude_out_of_range")]),
    (polygon([*SQUARE, [100, 91]]), [("coordinates[0][5]", "latitude_out_of_range")]),
    (polygon([*SQUARE, [0, -181]]), [("coordinates[0][5]", "latitude_out_of_range")]),
    (polygon([*SQUARE, [35.7, 139.7]]), [("coordinates[0][5]", "looks_swapped")]),
    (polygon(SQUARE[:2] + SQUARE[:1]), [("coordinates[0]", "ring_too_short")]),
    (polygon(SQUARE[:4]), [("coordinates[0][3]", "ring_not_closed")]),
    (multi([SQUARE[:4]]), [("coordinates[0][0][3]", "ring_not_closed")]),
    (polygon([SQUARE[0]] * 4), [("coordinates[0]", "ring_without_area")]),
    (polygon([SQUARE[0], SQUARE[1], SQUARE[1], SQUARE[0]]), [("coordinates[0]", "ring_without_area")]),
    (polygon(FLAT), [("coordinates[0]", "ring_without_area")]),
    (polygon(BOWTIE), [("coordinates[0]", "ring_crosses_itself")]),
    (polygon(SQUARE, BOWTIE), [("coordinates[1]", "ring_crosses_itself")]),
    (polygon(SQUARE, hole(20, 0)), [("coordinates[1]", "hole_outside")]),
    (polygon(SQUARE, hole(9, 4)), [("coordinates[1]", "hole_crosses")]),
    (polygon(SQUARE, hole(0, 4)), [("coordinates[1]", "hole_crosses")]),
    (polygon(SQUARE, SQUARE), [("coordinates[1]", "hole_crosses")]),
    (polygon(SQUARE, hole(1, 1), hole(3, 1)), [("coordinates[2]", "hole_crosses")]),
    (polygon(SQUARE, hole(1, 1), hole(2, 2)), [("coordinates[2]", "hole_crosses")]),
    (polygon(SQUARE, hole(1, 1, 8), hole(3, 3)), [("coordinates[2]", "hole_nested")]),
    (
        polygon(SQUARE, points((0, 5), (5, 2), (10, 5), (5, 8), (0, 5))),
        [("coordinates[1]", "hole_splits")],
    ),
    (multi([SQUARE], [hole(5, 5, 10)]), [("coordinates[1]", "polygons_overlap")]),
    (multi([SQUARE], [hole(10, 0, 10)]), [("coordinates[1]", "polygons_overlap")]),
    (multi([SQUARE], [hole(2, 2)]), [("coordinates[1]", "polygons_overlap")]),
    (multi([SQUARE], [SQUARE]), [("coordinates[1]", "polygons_overlap")]),
    (polygon(LEAP), [("coordinates[0][1]", "crosses_antimeridian")]),
    (square(size=5.1), [("coordinates", "too_wide")]),
    (multi([SQUARE], [ring(-23.55, -40)]), [("coordinates", "too_wide")]),
    (multi([SQUARE], [ring(10, WEST)]), [("coordinates", "too_wide")]),
]


@pytest.mark.parametrize(("fence", "faults"), FAULTY)
def test_faults_have_place_and_code(fence: object, faults: list[tuple[str, str]]) -> None:
    assert faults_of(fence) == faults


def test_every_fault_text_is_used() -> None:
    shown = {code for _, faults in FAULTY for _, code in faults} | {"too_many_points", "too_many_rings"}
    assert {f"fences.{code}" for code in shown} == {key for key in words("en") if key.startswith("fences.")}


def test_crossing_ring_reports_the_place() -> None:
    with pytest.raises(FenceFaulty) as refused:
        read_fence(polygon(BOWTIE))
    data = refused.value.faults[0].data
    assert data == {"lng": pytest.approx(WEST + 0.005), "lat": pytest.approx(SOUTH + 0.005)}


def test_all_faults_are_reported_together() -> None:
    fence = multi(
        [SQUARE, hole(1, 1), hole(20, 20), hole(1.5, 1.5), BOWTIE], [hole(30, 0)], [[[0, 0]]], [hole(31, 1)]
    )
    assert faults_of(fence) == [
        ("coordinates[0][4]", "ring_crosses_itself"),
        ("coordinates[0][3]", "hole_crosses"),
        ("coordinates[0][2]", "hole_outside"),
        ("coordinates[2][0]", "ring_too_short"),
        ("coordinates[3]", "polygons_overlap"),
    ]


def test_number_of_reported_faults_is_limited() -> None:
    wrong = [[200, 0]] * 1000
    assert faults_of(polygon(wrong)) == [
        (f"coordinates[0][{n}]", "longitude_out_of_range") for n in range(MAX_FAULTS)
    ]


def circle(count: int) -> list[list[float]]:
    turns = [2 * math.pi * n / count for n in range(count)]
    around = [[WEST + math.cos(turn), SOUTH + math.sin(turn)] for turn in turns]
    return [*around, around[0]]


def test_points_and_rings_are_limited() -> None:
    assert read_fence(polygon(circle(MAX_POINTS - 1)))
    assert faults_of(polygon(circle(MAX_POINTS))) == [("coordinates", "too_many_points")]
    many = [hole(x, y, 0.2) for x in range(1, 30) for y in range(1, 30)]
    shell = hole(0, 0, 40)
    assert read_fence(polygon(shell, *many[: MAX_RINGS - 1]))
    assert faults_of(polygon(shell, *many[:MAX_RINGS])) == [("coordinates", "too_many_rings")]


@pytest.mark.parametrize(
    "fence",
    [
        polygon(SQUARE, hole(3, 3), hole(5, 5)),
        polygon(SQUARE, points((0, 5), (5, 2), (5, 8), (0, 5))),
        multi([SQUARE], [hole(10, 10, 10)]),
        multi([[*SQUARE[:2], *SQUARE[1:]]]),
        multi([ring(0, 179.9, size=0.1)], [ring(0, -180, size=0.1)]),
        multi([SQUARE, hole(1, 1, 8)], [hole(3, 3)]),
        {**square(), "bbox": [0, 0, 1, 1], "crs": None},
    ],
    ids=["holes touch in a point", "a hole touches the outer ring", "polygons touch in a point",
         "a point comes twice", "split at the antimeridian", "an island in a hole", "more members"],
)  # fmt: skip
def test_touching_rings_are_valid(fence: dict[str, Any]) -> None:
    assert shapely.from_geojson(read_fence(fence)).equals(shapely.from_geojson(json.dumps(fence)))


def test_altitudes_are_removed() -> None:
    high = polygon([[*place, 760.5] for place in SQUARE])
    assert read_fence(high) == read_fence(polygon(SQUARE))


@given(valid_fences())
def test_valid_fence_keeps_its_points_with_rings_oriented(
    fence: dict[str, Any],
) -> None:
    kept = read_fence(fence)
    assert normalized(kept) == read_fence(json.loads(kept)) == kept
    shape = shapely.from_geojson(kept)
    assert shape.equals(shapely.from_geojson(json.dumps(fence)))
    flat = json.loads(kept)["coordinates"]
    sent = [fence["coordinates"]] if fence["type"] == "Polygon" else fence["coordinates"]
    polygons = [flat] if fence["type"] == "Polygon" else flat
    for before, after in zip(sent, polygons, strict=True):
        for number, (was, now) in enumerate(zip(before, after, strict=True)):
            assert now in (was, was[::-1])
            assert shapely.LinearRing(now).is_ccw == (number == 0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(SQUARE),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=30,
)


@settings(max_examples=examples(300))
@given(st.sampled_from(["Polygon", "MultiPolygon"]), json_values)
def test_any_json_is_a_fence_or_has_faults(kind: str, coordinates: object) -> None:
    fence = {"type": kind, "coordinates": coordinates}
    try:
        kept = read_fence(fence)
    except FenceFaulty:
        assert 0 < len(faults_of(fence)) <= MAX_FAULTS
    else:
        assert shapely.from_geojson(kept).is_valid


places = st.tuples(st.integers(0, 6), st.integers(0, 6))
# Fractions that floats represent exactly, so that points on a line are on it.
corners = places.map(lambda place: [place[0] / 1024 - 46, place[1] / 1024 - 23])
rings = st.lists(corners, min_size=3, max_size=7).map(lambda found: [*found, found[0]])


@settings(max_examples=examples(300))
@given(st.lists(st.lists(rings, min_size=1, max_size=3), min_size=1, max_size=3))
def test_fence_is_valid_exactly_if_shapely_says_so(
    coordinates: list[list[list[list[float]]]],
) -> None:
    """Rings on a coarse grid touch, cross and coincide often."""
    shape = shapely.MultiPolygon([shapely.Polygon(shell, holes) for shell, *holes in coordinates])
    try:
        kept = shapely.from_geojson(read_fence(multi(*coordinates)))
    except FenceFaulty:
        assert not shape.is_valid
    else:
        assert shape.is_valid
        assert kept.equals(shape)
