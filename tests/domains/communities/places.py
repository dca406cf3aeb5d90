"""Fences for tests, each at a place of its own, and communities made of them as an operator does."""

import math
import random
from typing import Any

import httpx
from hypothesis import strategies as st

from tests.conftest import bearer

PRICES = {"base_cents": 400, "per_km_cents": 150, "per_minute_cents": 25, "minimum_cents": 700}
Coordinates = list[list[list[float]]]


def somewhere() -> tuple[float, float]:
    """A latitude and longitude far out at sea, where nobody else fences anything in."""
    return random.uniform(-55, -35), random.uniform(-140, -90)


def ring(lat: float = -23.55, lng: float = -46.63, *, size: float = 0.01) -> list[list[float]]:
    """A square with this corner in the south-west, turned as GeoJSON has outer rings."""
    e, n = lng + size, lat + size
    return [[lng, lat], [e, lat], [e, n], [lng, n], [lng, lat]]


def square(lat: float = -23.55, lng: float = -46.63, *, size: float = 0.01) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [ring(lat, lng, size=size)]}


def a_body(**changes: Any) -> dict[str, Any]:
    """What makes a community somewhere."""
    return {"name": "Vila", "fence": square(*somewhere()), **changes}


async def fenced(api: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    """A new community, as the API answers it."""
    made = await api.post("/v1/communities", json=a_body(**changes), headers=bearer("operator"))
    assert made.status_code == 201, made.text
    return made.json()


def _star(draw: st.DrawFn, lat: float, lng: float, size: float) -> list[list[float]]:
    """A ring of many corners around a place, none of them nearer than 0.6 of the size; turned either way."""
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
    """With up to four holes, which have a quarter each."""
    size = draw(st.floats(0.001, 0.4))
    quarters = draw(st.lists(st.sampled_from([(1, 1), (1, -1), (-1, 1), (-1, -1)]), max_size=4, unique=True))
    away = 0.25 * size
    holes = [_star(draw, lat + north * away, lng + east * away, 0.2 * size) for north, east in quarters]
    return [_star(draw, lat, lng, size), *holes]


@st.composite
def sound_fences(draw: st.DrawFn) -> dict[str, Any]:
    """Polygons with holes, and MultiPolygons of them that do not touch."""
    lat, lng = draw(st.floats(-80, 80)), draw(st.floats(-170, 170))
    if draw(st.booleans()):
        return {"type": "Polygon", "coordinates": _polygon(draw, lat, lng)}
    count = draw(st.integers(1, 3))
    return {"type": "MultiPolygon", "coordinates": [_polygon(draw, lat, lng + n) for n in range(count)]}
