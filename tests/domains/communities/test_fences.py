"""The fence index, compared with shapely on each fence, and distances, compared with the globe."""

from random import Random

import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st
from shapely.geometry.base import BaseGeometry

from catraca.domains.communities import Community, FenceIndex
from catraca.domains.communities.model import Margin
from catraca.platform.geo import Place, straight_line_meters
from tests.domains.communities.shapes import (
    LAT,
    LON,
    community,
    fence_of,
    geojson,
    moved,
    rectangle,
    some_fence,
)
from tests.support.examples import examples

Fences = list[tuple[Community, BaseGeometry]]


def some_fences(dice: Random, count: int, *, apart: float = 2000) -> Fences:
    """Random fences near each other, so that some overlap."""
    middles = [
        moved(LAT, LON, north=dice.uniform(-apart, apart), east=dice.uniform(-apart, apart))
        for _ in range(count)
    ]
    return [
        (community(number), some_fence(dice, *middle, meters=10 ** dice.uniform(1, 3.5)))
        for number, middle in enumerate(middles, start=1)
    ]


def places_in(dice: Random, shapes: list[BaseGeometry]) -> list[tuple[float, float]]:
    """Random places around the shapes, and on their corners and sides, holes included."""
    west, south, east, north = shapely.total_bounds(shapes)
    anywhere = [(dice.uniform(south, north), dice.uniform(west, east)) for _ in range(20)]
    on_edges: list[tuple[float, float]] = []
    for shape in shapes:
        for line in shapely.get_parts(shapely.boundary(shape)):
            on_edges += [(lat, lon) for lon, lat in line.coords]
            on_edges += [
                (point.y, point.x)
                for point in (line.interpolate(dice.random(), normalized=True) for _ in range(3))
            ]
    return anywhere + on_edges


def expected_at(fences: Fences, lat: float, lon: float) -> list[Community]:
    """The expected communities, by shapely, one fence after another."""
    point = shapely.Point(lon, lat)
    found = [(shape.area, one.id, one) for one, shape in fences if shape.covers(point)]
    return [one for _, _, one in sorted(found, key=lambda each: each[:2])]


def index_of(fences: Fences) -> FenceIndex:
    return FenceIndex.of((one, geojson(shape)) for one, shape in fences)


def as_read(fences: Fences) -> Fences:
    """The fences after a write as GeoJSON: the last digit of a corner may change."""
    return [(one, shapely.from_geojson(geojson(shape))) for one, shape in fences]


@given(st.randoms(use_true_random=False), st.integers(1, 8))
@settings(max_examples=examples(60), deadline=None)
def test_index_returns_covering_fences_smallest_first(dice: Random, count: int) -> None:
    fences = as_read(some_fences(dice, count))
    index = index_of(fences)
    places = places_in(dice, [shape for _, shape in fences])
    for place, together in zip(places, index.at_each(places), strict=True):
        expected = expected_at(fences, *place)
        assert list(index.at(*place)) == expected
        assert [one.community for one in together.values()] == expected
        assert list(together) == [one.id for one in expected]


def elsewhere(dice: Random, kinds: list[BaseGeometry]) -> BaseGeometry:
    """One of these shapes, moved by some kilometres."""
    aside = [dice.uniform(-0.2, 0.2), dice.uniform(-0.2, 0.2)]
    return shapely.transform(dice.choice(kinds), lambda degrees: degrees + aside)


def test_index_of_ten_thousand_fences() -> None:
    dice = Random(8)
    kinds = [shape for _, shape in some_fences(dice, 50)]
    fences = as_read([(community(number), elsewhere(dice, kinds)) for number in range(1, 10_001)])
    index = index_of(fences)
    assert len(index) == len(fences)
    shapes = [shape for _, shape in fences]
    places = places_in(dice, dice.sample(shapes, 3))
    found = 0
    for place, together in zip(places, index.at_each(places), strict=True):
        covers = shapely.covers(shapes, shapely.Point(place[::-1])).nonzero()[0].tolist()
        assert set(together) == {fences[number][0].id for number in covers}
        assert [one.id for one in index.at(*place)] == list(together)
        found += len(together)
    assert found > len(places), "most places are in several fences"


def test_empty_index_and_empty_query() -> None:
    assert FenceIndex({}).at_each([(LAT, LON)]) == [{}]
    assert index_of([(community(), rectangle(north=10, east=10))]).at_each([]) == []


@given(st.randoms(use_true_random=False), st.lists(st.lists(st.integers(1, 6), max_size=4), max_size=6))
@settings(max_examples=examples(50), deadline=None)
def test_changed_index_equals_a_new_index(dice: Random, steps: list[list[int]]) -> None:
    """Each step creates, moves or retires several communities, in any order."""
    index, newest = FenceIndex({}), dict[int, tuple[Community, BaseGeometry]]()
    for version, numbers in enumerate(steps, start=1):
        changed = {
            number: (
                community(number, version=version, retired=dice.random() < 0.3),
                shapely.from_geojson(geojson(some_fence(dice))),
            )
            for number in numbers
        }
        newest |= changed
        index = index.with_changes([(one, geojson(shape)) for one, shape in changed.values()])
    there = [(one, shape) for one, shape in newest.values() if not one.rules.retired]
    anew = index_of(list(newest.values()))
    assert len(index) == len(anew) == len(there)
    for place in places_in(dice, [shape for _, shape in newest.values()]) if newest else []:
        assert index.at(*place) == anew.at(*place) == expected_at(there, *place)
    for one, _ in newest.values():
        known = index.get(one.id)
        assert (None if known is None else known.community) == (None if one.rules.retired else one)


def meters_on_the_globe(shape: BaseGeometry, lat: float, lon: float) -> float:
    """The distance to the edge, by great circles to points of it a few metres apart."""
    close = shapely.segmentize(shapely.boundary(shape), 3 / 111_195)
    here = Place(lat, lon)
    return min(straight_line_meters(here, Place(y, x)) for x, y in shapely.get_coordinates(close).tolist())


@given(st.randoms(use_true_random=False), st.floats(-65, 65))
@settings(max_examples=examples(15), deadline=None)
def test_distance_to_the_edge_is_exact_to_half_a_percent(dice: Random, lat: float) -> None:
    shape = some_fence(dice, lat, LON, meters=dice.uniform(500, 4000))
    fence = fence_of(shape)
    corners = shapely.get_coordinates(shape).tolist()
    for _ in range(4):
        lon_at, lat_at = dice.choice(corners)
        place = moved(lat_at, lon_at, north=dice.uniform(-300, 300), east=dice.uniform(-300, 300))
        expected = meters_on_the_globe(shape, *place)
        assert fence.margin_at(*place).edge_meters == pytest.approx(expected, rel=0.005, abs=1.5)


def rounded(margin: Margin) -> tuple[int, int]:
    return round(margin.edge_meters), round(margin.inner_radius_meters)


def test_edge_of_a_hole_is_an_edge() -> None:
    ring = fence_of(rectangle(north=1000, east=1000) - rectangle(north=200, east=200))
    for north, meters in ((0, 100), (90, 10), (110, 10), (300, 200), (490, 10), (510, 10)):
        assert round(ring.margin_at(*moved(LAT, LON, north=north)).edge_meters) == meters


def test_each_part_has_its_own_inner_radius() -> None:
    far = moved(LAT, LON, east=2000)
    small = rectangle(north=60, east=60, lat=far[0], lon=far[1])
    fence = fence_of(shapely.MultiPolygon([rectangle(north=1000, east=1000), small]))
    assert rounded(fence.margin_at(LAT, LON)) == (500, 500)
    assert rounded(fence.margin_at(*far)) == (30, 30)
    assert rounded(fence.margin_at(*moved(*far, east=130))) == (100, 30), "also for a place outside"


def test_distance_across_the_antimeridian() -> None:
    _, lon = moved(0.0, 180.0, east=-200)
    fence = fence_of(rectangle(north=400, east=400, lat=0, lon=lon))
    lat, beyond = moved(0.0, 180.0, east=100)
    assert rounded(fence.margin_at(lat, beyond)) == (100, 200)
    assert rounded(fence.margin_at(lat, beyond - 360)) == (100, 200)
