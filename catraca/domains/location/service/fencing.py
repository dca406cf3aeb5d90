"""Which communities drivers are in: settled by the last that was seen of them, told when it changes.

Nothing is written of whoever stays where they are known to be.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from catraca.domains.communities import (
    CommunityId,
    EdgeRules,
    Fence,
    FenceIndex,
    Fences,
    Sighting,
    Whereabouts,
    settle,
    settle_first,
)
from catraca.domains.location.model import DriverId, Ping
from catraca.domains.location.store import communities, presence
from catraca.domains.location.store.communities import Change
from catraca.domains.location.store.index import LastHeard
from catraca.events import DriverEnteredCommunity, DriverLeftCommunity
from catraca.platform.database import Db, Row, outbox
from catraca.platform.event import Event
from catraca.platform.geo import Place


@dataclass(frozen=True, slots=True)
class Seen:
    """A driver at work and the last ping; the first one since they began decides at once where they are."""

    driver_id: DriverId
    ping: Ping
    is_first: bool = False


def seen_on(page: Sequence[Row], heard: Mapping[DriverId, LastHeard]) -> list[Seen]:
    """The last ping of each on a page of drivers online: the map's, or PostgreSQL's where that is newer.

    It is the first one as long as none was written down.
    """
    seen: list[Seen] = []
    for row in page:
        known = heard.get(row["driver_id"])
        pings = [ping for ping in (known and known.ping, presence.ping_of(row)) if ping]
        if pings:
            newest = max(pings, key=lambda ping: ping.at)
            seen.append(Seen(row["driver_id"], newest, row["position_at"] is None))
    return seen


async def settle_communities(db: Db, fences: Fences, seen: Sequence[Seen], *, rules: EdgeRules) -> None:
    """Who has entered a community or left one by now; told of once, whoever else settles the same."""
    if not seen:
        return
    index = await fences.current(db)
    known = await communities.whereabouts_of(db, [one.driver_id for one in seen])
    places = [(one.ping.place.lat, one.ping.place.lon) for one in seen]
    changes = [
        change
        for one, around in zip(seen, index.at_each(places), strict=True)
        for change in _changes(one, around, known.get(one.driver_id, {}), index, rules)
    ]
    if not changes:
        return
    made = await communities.write_changes(db, changes)
    pings = {one.driver_id: one.ping for one in seen}
    settled = [change for change in changes if (change.driver_id, change.community_id) in made]
    news = (_news_of(change, pings[change.driver_id].place) for change in settled)
    await outbox.record(db, *(event for event in news if event is not None))


def _changes(
    seen: Seen,
    around: Mapping[CommunityId, Fence],
    known: Mapping[CommunityId, Whereabouts],
    index: FenceIndex,
    rules: EdgeRules,
) -> Iterator[Change]:
    """Of the fences around the driver, and of those the driver is known to be in or about to enter."""
    ping = seen.ping
    sighting = Sighting(ping.place.lat, ping.place.lon, ping.at, ping.blur_meters)
    for community_id in dict.fromkeys([*known, *around]):
        before, fence = known.get(community_id), index.get(community_id)
        if fence is None:
            after = None  # the community is retired
        elif before is None and seen.is_first:
            after = settle_first(sighting)
        else:
            after = settle(before, sighting, fence, inside=community_id in around, rules=rules)
        if after != before:
            yield Change(driver_id=seen.driver_id, community_id=community_id, before=before, after=after)


def _news_of(change: Change, place: Place) -> Event | None:
    """What is told of a change: most are only steps on the way to a crossing."""
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
