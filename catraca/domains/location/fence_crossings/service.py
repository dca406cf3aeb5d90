"""Which communities drivers are in: computed from their newest pings, with an event for each crossing.

Nothing is written for drivers whose state stays the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catraca.domains.communities import CommunityId, Fence, FenceIndex, Fences
from catraca.domains.location.fence_crossings import store
from catraca.domains.location.fence_crossings.model import (
    CrossingRules,
    FenceState,
    StateChange,
    first_state,
    next_state,
)
from catraca.domains.location.model import DriverId, Ping
from catraca.events import DriverEnteredCommunity, DriverLeftCommunity
from catraca.platform.database import Db, outbox
from catraca.platform.event import Event
from catraca.platform.geo import Place


@dataclass(frozen=True, slots=True)
class DriverPing:
    """An online driver's newest ping; `is_first`: the first one since the driver went online."""

    driver_id: DriverId
    ping: Ping
    is_first: bool = False


async def record_crossings(
    db: Db, fences: Fences, pings: Sequence[DriverPing], *, rules: CrossingRules
) -> None:
    """Write the drivers' new states, and publish an event for each entered or left community.

    Safe to repeat and to run in several processes: each crossing is published once.
    """
    if not pings:
        return
    index = await fences.current(db)
    known = await store.fence_states(db, [one.driver_id for one in pings])
    places = [(one.ping.place.lat, one.ping.place.lon) for one in pings]
    changes = [
        change
        for one, around in zip(pings, index.at_each(places), strict=True)
        for change in _changes(one, around, known.get(one.driver_id, {}), index, rules)
    ]
    if not changes:
        return
    written = await store.write_changes(db, changes)
    place_of = {one.driver_id: one.ping.place for one in pings}
    events = (
        _event_of(change, place_of[change.driver_id])
        for change in changes
        if (change.driver_id, change.community_id) in written
    )
    await outbox.record(db, *(event for event in events if event is not None))


def _changes(
    one: DriverPing,
    around: Mapping[CommunityId, Fence],
    known: Mapping[CommunityId, FenceState],
    index: FenceIndex,
    rules: CrossingRules,
) -> Iterator[StateChange]:
    """Changes in the fences around the driver, and in those for which the driver has a state."""
    for community_id in dict.fromkeys([*known, *around]):
        before, fence = known.get(community_id), index.get(community_id)
        if fence is None:
            after = None  # The community is retired.
        elif before is None and one.is_first:
            after = first_state(one.ping)
        else:
            after = next_state(before, one.ping, fence, inside=community_id in around, rules=rules)
        if after != before:
            yield StateChange(driver_id=one.driver_id, community_id=community_id, before=before, after=after)


def _event_of(change: StateChange, place: Place) -> Event | None:
    """None for a step of a crossing that is not complete."""
    driver_id, community_id = change.driver_id, change.community_id
    if change.entered:
        return DriverEnteredCommunity(
            driver_id=driver_id, community_id=community_id, lat=place.lat, lng=place.lon
        )
    if change.left:
        return DriverLeftCommunity(
            driver_id=driver_id, community_id=community_id, lat=place.lat, lng=place.lon
        )
    return None
