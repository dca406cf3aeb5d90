"""When a driver has crossed a fence's edge: later than a phone first says so, and once.

A phone tells where it is as well as it knows (`blur_meters`); next to an edge it says "in" and "out" by turns
while the car stands still. So a sighting counts for a crossing only where the phone would have to be more
wrong than it says it is, and one alone does not do.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catraca.domains.communities.model.fences import Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRules:
    """How much it takes to have crossed: so many clear sightings in a row, or some for so long."""

    pings: int = 3
    dwell: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a driver was, when by the driver's own clock, and how far off that may be."""

    lat: float
    lon: float
    at: datetime
    blur_meters: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """What is known of a driver and a fence. Of whoever is outside, and not about to enter, nothing is."""

    inside: bool
    since: datetime
    seen_at: datetime
    # Clearly seen on the other side, and not on this one since: from when on, and how often.
    crossing_since: datetime | None = None
    crossing_pings: int = 0


def settle(
    known: Whereabouts | None, sighting: Sighting, fence: Fence, *, inside: bool, rules: EdgeRules
) -> Whereabouts | None:
    """What is known after one more sighting, on this side of the edge; None: nothing worth knowing.

    A sighting that was seen before, or is older than one that was, changes nothing.
    """
    if known is not None and sighting.at <= known.seen_at:
        return known
    if inside == (known is not None and known.inside):
        return _stay(known, sighting)
    return _cross(known, sighting, rules) if is_clear(sighting, fence, inside=inside) else known


def settle_first(sighting: Sighting) -> Whereabouts:
    """What is known of whoever begins to work inside: there is no side they were on before."""
    return Whereabouts(inside=True, since=sighting.at, seen_at=sighting.at)


def is_clear(sighting: Sighting, fence: Fence, *, inside: bool) -> bool:
    """Whether the driver is on this side even if the phone is as wrong as it may be.

    In a fence so narrow that nobody could ever be clearly inside, half of the way to its middle will do.
    """
    margin = fence.margin_at(sighting.lat, sighting.lon)
    blur = sighting.blur_meters
    return margin.edge_meters >= (min(blur, margin.inner_radius_meters / 2) if inside else blur)


def _stay(known: Whereabouts | None, sighting: Sighting) -> Whereabouts | None:
    """Back on the side they are known to be on, however near the edge: no crossing is under way."""
    if known is None or not known.inside:
        return None
    if not known.crossing_pings:
        return known
    return replace(known, seen_at=sighting.at, crossing_since=None, crossing_pings=0)


def _cross(known: Whereabouts | None, sighting: Sighting, rules: EdgeRules) -> Whereabouts | None:
    """Once more on the other side: as often or as long as it takes, or nearly."""
    at = sighting.at
    since = known.crossing_since if known is not None and known.crossing_since is not None else at
    pings = 1 + (known.crossing_pings if known is not None else 0)
    was_inside = known is not None and known.inside
    if pings >= rules.pings or (pings > 1 and at - since >= rules.dwell):
        return None if was_inside else Whereabouts(inside=True, since=at, seen_at=at)
    return Whereabouts(
        inside=was_inside,
        since=known.since if known is not None else at,
        seen_at=at,
        crossing_since=since,
        crossing_pings=pings,
    )
