"""Communities as values, and the index of their fences in memory."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple, NewType, Self, cast
from uuid import UUID

import msgspec
import shapely
from shapely.geometry.base import BaseGeometry

from catraca.platform.geo import METERS_A_DEGREE

CommunityId = NewType("CommunityId", UUID)
# Which drivers may get a ride: the community's own, those of its neighbours as well, or all.
Tier = Literal["home", "neighbours", "open"]
Fallback = Literal["neighbours", "open"]
# Drivers of these communities, or all drivers.
CommunityFilter = frozenset[CommunityId] | None
MAX_NEIGHBOURS: Final = 50


class Prices(msgspec.Struct, frozen=True):
    """A community's tariff, in hundredths of the common currency."""

    base_cents: int
    per_km_cents: int
    per_minute_cents: int
    minimum_cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All that an operator sets for a community except its fence."""

    name: str
    tariff: Prices | None = None
    # For rides with drivers from elsewhere; None: `tariff`.
    outside_tariff: Prices | None = None
    # The tiers a passenger is asked to confirm, in this order, when the community has no driver available.
    # Empty: the ride waits for the community's own drivers.
    fallback: tuple[Fallback, ...] = ("open",)
    neighbour_ids: tuple[CommunityId, ...] = ()
    # None: the server's setting.
    confirmation_ttl_seconds: int | None = None
    retired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Community:
    id: CommunityId
    version: int
    changed_at: datetime
    rules: Rules

    def prices_for(self, tier: Tier) -> Prices | None:
        """The tariff of a ride in this tier; None: the server's."""
        outside = self.rules.outside_tariff if tier != "home" else None
        return outside or self.rules.tariff


def search_circles(community: Community, tier: Tier) -> Sequence[CommunityFilter]:
    """The filters to search by, one after another, each with the drivers of the ones before it."""
    home: CommunityFilter = frozenset({community.id})
    with_neighbours = home | set(community.rules.neighbour_ids)
    circles: list[CommunityFilter] = [home]
    if tier != "home" and "neighbours" in community.rules.fallback and with_neighbours != home:
        circles.append(with_neighbours)
    if tier == "open":
        circles.append(None)
    return circles


class Margin(NamedTuple):
    """Distance to a fence's edge, and the largest distance inside the fence's nearest part."""

    edge_meters: float
    inner_radius_meters: float


@dataclass(frozen=True)
class Fence:
    """A community with its shape, in degrees."""

    community: Community
    shape: BaseGeometry

    @cached_property
    def area(self) -> float:
        """In square degrees; only for comparison."""
        return float(self.shape.area)

    def margin_at(self, lat: float, lon: float) -> Margin:
        """The distance of a place, inside or outside, from the nearest edge; holes have edges too."""
        return self._plane.margin_at(lat, lon)

    @cached_property
    def _plane(self) -> "_FencePlane":
        """Built on first use: most fences of a large index never need it."""
        return _FencePlane(self.shape)


class _Part(NamedTuple):
    shape: BaseGeometry
    edge: BaseGeometry
    inner_radius_meters: float


class _FencePlane:
    """A fence on a flat map in metres: exact to some parts in a thousand if it is 10 km wide."""

    def __init__(self, shape: BaseGeometry) -> None:
        (self._lon, _), *_ = shapely.get_coordinates(shape)
        _, south, _, north = shape.bounds
        self._lat = (south + north) / 2
        self._east_meters = METERS_A_DEGREE * math.cos(math.radians(self._lat))
        flat = shapely.transform(shape, self._project)
        parts: list[Any] = shapely.get_parts(flat).tolist()
        self._parts = [_Part(part, part.boundary, _inner_radius(part)) for part in parts]

    def margin_at(self, lat: float, lon: float) -> Margin:
        point = shapely.transform(shapely.Point(lon, lat), self._project)
        nearest = min(self._parts, key=lambda part: part.shape.distance(point))
        return Margin(float(nearest.edge.distance(point)), nearest.inner_radius_meters)

    def _project(self, degrees: Any) -> Any:
        # By the shorter way around the globe: 180° east is 180° west.
        east = (degrees[:, 0] - self._lon + 180) % 360 - 180
        degrees[:, 0] = east * self._east_meters
        degrees[:, 1] = (degrees[:, 1] - self._lat) * METERS_A_DEGREE
        return degrees


def _inner_radius(shape: Any) -> float:
    radius = cast(Any, shapely.maximum_inscribed_circle(shape))
    return float(radius.length)


class FenceIndex:
    """All communities that are not retired. Immutable: `with_changes` returns a new index."""

    def __init__(self, fences: Mapping[CommunityId, Fence]) -> None:
        self._by_id = fences
        # Smallest first: the order of every answer.
        self._fences: list[Fence] = sorted(
            fences.values(), key=lambda fence: (fence.area, fence.community.id)
        )
        shapes = [fence.shape for fence in self._fences]
        shapely.prepare(shapes)
        self._tree = shapely.STRtree(shapes)

    @classmethod
    def of(cls, communities: Iterable[tuple[Community, str]]) -> Self:
        """From communities with their fences as GeoJSON."""
        return cls({}).with_changes(communities)

    def with_changes(self, communities: Iterable[tuple[Community, str]]) -> Self:
        """Add or replace these communities; remove the retired ones."""
        fences = dict(self._by_id)
        changed = list(communities)
        # A fence that is no shape is left out, so that it does not fail the others.
        shapes = shapely.from_geojson([fence for _, fence in changed], on_invalid="ignore")
        for (community, _), shape in zip(changed, shapes, strict=True):
            if community.rules.retired or shape is None:
                fences.pop(community.id, None)
            else:
                fences[community.id] = Fence(community, shape)
        return type(self)(fences)

    def __len__(self) -> int:
        return len(self._fences)

    def get(self, community_id: CommunityId) -> Fence | None:
        return self._by_id.get(community_id)

    def at(self, lat: float, lon: float) -> Sequence[Community]:
        """The communities that contain the place, edges included, smallest first."""
        found = self._tree.query(shapely.Point(lon, lat), predicate="intersects")
        numbers: list[int] = sorted(found.tolist())
        return [self._fences[number].community for number in numbers]

    def at_each(self, places: Sequence[tuple[float, float]]) -> list[dict[CommunityId, Fence]]:
        """The fences that contain each place, a latitude and a longitude; one query for all."""
        found: list[dict[CommunityId, Fence]] = [{} for _ in places]
        points = shapely.points([lon for _, lon in places], [lat for lat, _ in places])
        pairs: list[tuple[int, int]] = self._tree.query(points, predicate="intersects").T.tolist()
        for place, number in sorted(pairs):
            fence = self._fences[number]
            found[place][fence.community.id] = fence
        return found
