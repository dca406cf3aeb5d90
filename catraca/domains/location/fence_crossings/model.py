"""When a driver crossed a fence's edge: hysteresis over pings.

Near an edge a phone reports "inside" and "outside" by turns while the car stands still. So a ping counts for
a crossing only where it is further from the edge than its error, and one such ping is not enough.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from catraca.domains.communities import CommunityId, Fence
from catraca.domains.location.model import DriverId, Ping


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossingRules:
    """A driver crossed after so many clear pings in a row, or after some during `dwell`."""

    pings: int = 3
    dwell: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceState:
    """A driver and a fence. A driver who is outside and not about to enter has no state."""

    inside: bool
    since: datetime
    seen_at: datetime
    # Clear pings on the other side, without a ping on this side between them: the first, and how many.
    crossing_since: datetime | None = None
    crossing_pings: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """A driver's state before and after a ping; None: no state."""

    driver_id: DriverId
    community_id: CommunityId
    before: FenceState | None
    after: FenceState | None

    @property
    def entered(self) -> bool:
        return self._is_inside and not self._was_inside

    @property
    def left(self) -> bool:
        return self._was_inside and not self._is_inside

    @property
    def _was_inside(self) -> bool:
        return self.before is not None and self.before.inside

    @property
    def _is_inside(self) -> bool:
        return self.after is not None and self.after.inside


def next_state(
    state: FenceState | None, ping: Ping, fence: Fence, *, inside: bool, rules: CrossingRules
) -> FenceState | None:
    """The state after one more ping, which is on this side of the edge.

    A ping that is not newer than the last one changes nothing.
    """
    if state is not None and ping.at <= state.seen_at:
        return state
    if inside == (state is not None and state.inside):
        return _stay(state, ping)
    return _cross(state, ping, rules) if is_clear(ping, fence, inside=inside) else state


def first_state(ping: Ping) -> FenceState:
    """The state of a driver whose first ping is inside: it decides alone."""
    return FenceState(inside=True, since=ping.at, seen_at=ping.at)


def is_clear(ping: Ping, fence: Fence, *, inside: bool) -> bool:
    """True if the driver is on this side even with the largest error of the ping.

    In a fence too narrow for that, half the way from the edge to the middle is clear.
    """
    margin = fence.margin_at(ping.place.lat, ping.place.lon)
    error = ping.error_meters
    return margin.edge_meters >= (min(error, margin.inner_radius_meters / 2) if inside else error)


def _stay(state: FenceState | None, ping: Ping) -> FenceState | None:
    """A ping on the known side, however near the edge, ends a crossing that began."""
    if state is None or not state.inside:
        return None
    if not state.crossing_pings:
        return state
    return replace(state, seen_at=ping.at, crossing_since=None, crossing_pings=0)


def _cross(state: FenceState | None, ping: Ping, rules: CrossingRules) -> FenceState | None:
    """Count a clear ping on the other side; enough of them are a crossing."""
    at = ping.at
    since = state.crossing_since if state is not None and state.crossing_since is not None else at
    pings = 1 + (state.crossing_pings if state is not None else 0)
    was_inside = state is not None and state.inside
    if pings >= rules.pings or (pings > 1 and at - since >= rules.dwell):
        return None if was_inside else FenceState(inside=True, since=at, seen_at=at)
    return FenceState(
        inside=was_inside,
        since=state.since if state is not None else at,
        seen_at=at,
        crossing_since=since,
        crossing_pings=pings,
    )
