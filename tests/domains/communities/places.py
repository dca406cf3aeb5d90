"""Fences as GeoJSON, each at its own place, and communities created over HTTP."""

import math
import random
from typing import Any

import httpx
from hypothesis import strategies as st

from tests.conftest import bearer

PRICES = {"base_cents": 400, "per_km_cents": 150, "per_minute_cents": 25, "minimum_cents": 700}
Coordinates = list[list[list[float]]]


def somewhere() -> tuple[float, float]:
    """A random latitude and longitude at sea, far from the communities of other tests."""
    return random.uniform(-55, -35), random.uniform(-140, -90)


def ring(lat: float = -23.55, lng: float = -46.63, *, size: float = 0.01) -> list[list[float]]:
    """A square with this south-west corner, oriented like an outer ring of GeoJSON."""
    e, n = lng + size, lat + size
    return [[lng, lat], [e, lat], [e, n], [lng, n], [lng, lat]]


def square(lat: float = -23.55, lng: float = -46.63, *, size: float = 0.01) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [ring(lat, lng, size=size)]}


def community_body(**changes: Any) -> dict[str, Any]:
    """A body that creates a community at a random place."""
    return {"name": "Vila", "fence": square(*somewhere()), **changes}


async def post_community(api: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    """Create a community; returns the API's answer."""
    made = await api.post("/v1/communities", json=community_body(**changes), headers=bearer("operator"))
    assert made.status_code == 201, made.text
    return made.json()


def _star(draw: st.DrawFn, lat: float, lng: float, size: float) -> list[list[float]]:
    """A ring around a place, with corners at 0.6 to 1 of the size, in either direction."""
    corners = draw(st.integers(8, 14))
    radii = draw(st.lists(st.floats(0.6, 1), min_size=corners, max_size=corners))
    turns = [2 * math.pi * corner / corners for corner in range(corners)]
    points = [
        [lng + size * radius * math.cos(turn), lat + size * radius * math.sin(turn)]
        for radius, turn in zip(radii, turns, strict=True)
    ]
    closed = [*points, points[0]]
    return closed[::-1] if draw(st.booleans()) else closed


def _polygon(draw: st.DrawFn, lat: float, lng: float) -> Coordinates:
    """A polygon with up to four holes, one in each quarter."""
    size = draw(st.floats(0.001, 0.4))
    quarters = draw(st.lists(st.sampled_from([(1, 1), (1, -1), (-1, 1), (-1, -1)]), max_size=4, unique=True))
    away = 0.25 * size
    holes = [_star(draw, lat + north * away, lng + east * away, 0.2 * size) for north, east in quarters]
    return [_star(draw, lat, lng, size), *holes]


@st.composite
def valid_fences(draw: st.DrawFn) -> dict[str, Any]:
    """Polygons with holes, and MultiPolygons of separate ones."""
    lat, lng = draw(st.floats(-80, 80)), draw(st.floats(-170, 170))
    if draw(st.booleans()):
        return {"type": "Polygon", "coordinates": _polygon(draw, lat, lng)}
    count = draw(st.integers(1, 3))
    return {"type": "MultiPolygon", "coordinates": [_polygon(draw, lat, lng + n) for n in range(count)]}
