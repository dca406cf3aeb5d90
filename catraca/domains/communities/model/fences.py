"""Fences in memory: which communities a place is in, whatever their number, and how far from the edge."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import shapely
from shapely.geometry.base import BaseGeometry

from catraca.domains.communities.model.community import Community, CommunityId
from catraca.platform.geo import METERS_A_DEGREE


class Margin(NamedTuple):
    """How far it is to a fence's edge, and how far one can get from it at most, where it is nearest."""

    edge_meters: float
    inner_radius_meters: float


@dataclass(frozen=True)
class Fence:
    """A community with its shape, in degrees, ready to be asked."""

    community: Community
    shape: BaseGeometry

    @cached_property
    def area(self) -> float:
        """Only to compare."""
        return float(self.shape.area)

    def margin_at(self, lat: float, lon: float) -> Margin:
        """How far a place is from the edge, on whichever side of it; holes have edges as well."""
        return self._in_meters.margin_at(lat, lon)

    @cached_property
    def _in_meters(self) -> "_InMeters":
        """When somebody comes near it: of ten thousand, most are never asked so closely."""
        return _InMeters(self.shape)


class _Part(NamedTuple):
    shape: BaseGeometry
    edge: BaseGeometry
    inner_radius_meters: float


class _InMeters:
    """A fence on a flat map of its own: right to some parts in a thousand, were it 10 km wide."""

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
        # Eastwards or westwards, whichever is nearer: 180° east is 180° west.
        east = (degrees[:, 0] - self._lon + 180) % 360 - 180
        degrees[:, 0] = east * self._east_meters
        degrees[:, 1] = (degrees[:, 1] - self._lat) * METERS_A_DEGREE
        return degrees


def _inner_radius(shape: Any) -> float:
    radius = cast(Any, shapely.maximum_inscribed_circle(shape))
    return float(radius.length)


class FenceIndex:
    """All communities that are not retired. Never changes: a new one is made of it when they do."""

    def __init__(self, fences: Mapping[CommunityId, Fence]) -> None:
        self._by_id = fences
        # The smallest first, so that what is found comes in that order.
        self._fences: list[Fence] = sorted(
            fences.values(), key=lambda fence: (fence.area, fence.community.id)
        )
        shapes = [fence.shape for fence in self._fences]
        shapely.prepare(shapes)
        self._tree = shapely.STRtree(shapes)

    @classmethod
    def of(cls, communities: Iterable[tuple[Community, str]]) -> Self:
        """From each community and its fence as GeoJSON."""
        return cls({}).with_changes(communities)

    def with_changes(self, communities: Iterable[tuple[Community, str]]) -> Self:
        """This with these instead of what it had of them; the retired leave."""
        fences = dict(self._by_id)
        changed = list(communities)
        shapes = shapely.from_geojson([fence for _, fence in changed])
        for (community, _), shape in zip(changed, shapes, strict=True):
            if community.rules.retired:
                fences.pop(community.id, None)
            else:
                fences[community.id] = Fence(community, shape)
        return type(self)(fences)

    def __len__(self) -> int:
        return len(self._fences)

    def get(self, community_id: CommunityId) -> Fence | None:
        return self._by_id.get(community_id)

    def at(self, lat: float, lon: float) -> Sequence[Community]:
        """The communities of a place, edges included, the smallest first."""
        found = self._tree.query(shapely.Point(lon, lat), predicate="intersects")
        numbers: list[int] = sorted(found.tolist())
        return [self._fences[number].community for number in numbers]

    def at_each(self, places: Sequence[tuple[float, float]]) -> list[dict[CommunityId, Fence]]:
        """The same for many places, each a latitude and a longitude, at once; with their fences."""
        found: list[dict[CommunityId, Fence]] = [{} for _ in places]
        points = shapely.points([lon for _, lon in places], [lat for lat, _ in places])
        pairs: list[tuple[int, int]] = self._tree.query(points, predicate="intersects").T.tolist()
        for place, number in sorted(pairs):
            fence = self._fences[number]
            found[place][fence.community.id] = fence
        return found
