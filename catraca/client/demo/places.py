"""A rough map of central Salvador: places, roads, routes."""

import heapq
import math
import random
from collections.abc import Sequence
from typing import NamedTuple

METERS_A_DEGREE = 111_195
# Trips begin and end within this distance of a place.
AROUND_METERS = 250.0
TRIP_ROADS = (1, 3)


class Spot(NamedTuple):
    lat: float
    lng: float

    def meters_to(self, other: "Spot") -> float:
        """Distance in a straight line, on a plane."""
        east, north = self._away(other)
        return math.hypot(east, north)

    def heading_to(self, other: "Spot") -> float:
        """Degrees; 0 is north."""
        return math.degrees(math.atan2(*self._away(other))) % 360

    def moved(self, *, east_meters: float, north_meters: float) -> "Spot":
        narrow = math.cos(math.radians(self.lat))
        return Spot(
            self.lat + north_meters / METERS_A_DEGREE, self.lng + east_meters / (METERS_A_DEGREE * narrow)
        )

    def towards(self, other: "Spot", meters: float) -> "Spot":
        far = self.meters_to(other)
        if meters >= far:
            return other
        east, north = self._away(other)
        return self.moved(east_meters=east * meters / far, north_meters=north * meters / far)

    def _away(self, other: "Spot") -> tuple[float, float]:
        narrow = math.cos(math.radians(self.lat))
        return (
            (other.lng - self.lng) * METERS_A_DEGREE * narrow,
            (other.lat - self.lat) * METERS_A_DEGREE,
        )


PLACES = {
    "Comércio": Spot(-12.9700, -38.5115),
    "Pelourinho": Spot(-12.9718, -38.5085),
    "Praça da Sé": Spot(-12.9745, -38.5103),
    "Nazaré": Spot(-12.9790, -38.5085),
    "Fonte Nova": Spot(-12.9788, -38.5044),
    "Tororó": Spot(-12.9850, -38.5075),
    "Campo Grande": Spot(-12.9893, -38.5208),
    "Garcia": Spot(-12.9920, -38.5130),
    "Graça": Spot(-12.9975, -38.5215),
    "Barra": Spot(-13.0085, -38.5300),
    "Ondina": Spot(-13.0070, -38.5085),
    "Federação": Spot(-12.9985, -38.5030),
    "Rio Vermelho": Spot(-13.0100, -38.4890),
    "Brotas": Spot(-12.9865, -38.4935),
}
ROADS = (
    ("Comércio", "Pelourinho"),
    ("Comércio", "Praça da Sé"),
    ("Pelourinho", "Praça da Sé"),
    ("Pelourinho", "Fonte Nova"),
    ("Praça da Sé", "Nazaré"),
    ("Praça da Sé", "Campo Grande"),
    ("Nazaré", "Fonte Nova"),
    ("Nazaré", "Tororó"),
    ("Fonte Nova", "Tororó"),
    ("Fonte Nova", "Brotas"),
    ("Tororó", "Garcia"),
    ("Campo Grande", "Garcia"),
    ("Campo Grande", "Graça"),
    ("Garcia", "Federação"),
    ("Graça", "Barra"),
    ("Barra", "Ondina"),
    ("Ondina", "Federação"),
    ("Ondina", "Rio Vermelho"),
    ("Federação", "Rio Vermelho"),
    ("Federação", "Brotas"),
)
NEIGHBOURS: dict[str, list[str]] = {name: [] for name in PLACES}
for one, other in ROADS:
    NEIGHBOURS[one].append(other)
    NEIGHBOURS[other].append(one)


def random_spot(chance: random.Random, *, place: str | None = None) -> Spot:
    """A spot near a place."""
    middle = PLACES[place or chance.choice(list(PLACES))]
    way, far = chance.uniform(0, 2 * math.pi), chance.uniform(0, AROUND_METERS)
    return middle.moved(east_meters=far * math.sin(way), north_meters=far * math.cos(way))


def random_trip(chance: random.Random) -> tuple[Spot, Spot]:
    """Start and end of a trip, some roads apart."""
    begin = chance.choice(list(PLACES))
    end = begin
    for _ in range(chance.randint(*TRIP_ROADS)):
        end = chance.choice([place for place in NEIGHBOURS[end] if place != begin])
    return random_spot(chance, place=begin), random_spot(chance, place=end)


def route(begin: Spot, end: Spot) -> list[Spot]:
    """The route by road, without its start."""
    first, last = _nearest(begin), _nearest(end)
    return [*(PLACES[name] for name in _shortest(first, last)[1:-1]), end]


def _nearest(spot: Spot) -> str:
    return min(PLACES, key=lambda name: spot.meters_to(PLACES[name]))


def _shortest(first: str, last: str) -> list[str]:
    ways: list[tuple[float, list[str]]] = [(0.0, [first])]
    seen: set[str] = set()
    while ways:
        meters, way = heapq.heappop(ways)
        here = way[-1]
        if here == last:
            return way
        if here not in seen:
            seen.add(here)
            for place in NEIGHBOURS[here]:
                heapq.heappush(ways, (meters + PLACES[here].meters_to(PLACES[place]), [*way, place]))
    raise AssertionError(f"no road leads from {first} to {last}")


def advance(spot: Spot, way: Sequence[Spot], meters: float) -> tuple[Spot, list[Spot]]:
    """The spot after this distance along a route, and the rest of the route."""
    left = list(way)
    while left and meters > 0:
        far = spot.meters_to(left[0])
        spot = spot.towards(left[0], meters)
        meters -= far
        if meters >= 0:
            left.pop(0)
    return spot, left
