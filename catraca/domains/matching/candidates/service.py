"""Finds candidates for a ride, offers the ride to them, and records the drivers it saw."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from catraca.domains import communities, location, rides
from catraca.domains.communities import CommunityFilter
from catraca.domains.location import Search, Source
from catraca.domains.matching.candidates.model import (
    Candidate,
    Cause,
    Outcome,
    SearchRecord,
    SeenDriver,
    Verdict,
)
from catraca.domains.people import UserId
from catraca.domains.rides import LockedRide, Offer, OfferPlan, Response
from catraca.platform.database import Db
from catraca.platform.geo import Place
from catraca.platform.redis_client import RedisClient

# How many drivers one search records.
MAX_SEEN = 50
MAX_TOO_FAR = 5
# Drivers the ride was offered to before, by their answer. `CANCELED` is not here: it is no answer of
# the driver, who can be asked again.
ASKED_BEFORE: Final[Mapping[Response | None, Verdict]] = {
    "REJECTED": "refused_before",
    "EXPIRED": "silent_before",
    "ACCEPTED": "gave_it_up",
    None: "asked_now",
}


class CandidateSearch:
    """One search within one step. The ride is locked by the caller."""

    def __init__(
        self,
        redis: RedisClient,
        db: Db,
        locked: LockedRide,
        *,
        number: int,
        cause: Cause,
        next_at: datetime | None,
    ) -> None:
        self._redis = redis
        self._db = db
        # With the offers of this search, once they are made.
        self.locked = locked
        self._number = number
        self._cause: Cause = cause
        self._radius_meters = 0
        self._seen: dict[UUID, SeenDriver] = {}
        self.source: Source = "redis"
        self.candidates: list[Candidate] = []
        # Until the step decides, the search keeps its planned time.
        self.outcome: Outcome = "waits_on"
        self.next_at = next_at

    async def find(self, radius_meters: int, *, max_radius_meters: int, limit: int, fresh: timedelta) -> None:
        """Set `candidates`, nearest first: drivers of the ride's community before all others."""
        excluded = self._excluded()
        place = Place(self.locked.ride.pickup_lat, self.locked.ride.pickup_lon)
        search = Search(place=place, radius_meters=radius_meters, limit=limit, fresh=fresh)
        *inner, outermost = await self._circles()
        for circle in (*inner, outermost):
            # Drivers of the community are asked before nearer ones: they are searched up to the maximum.
            self._radius_meters = radius_meters if circle == outermost else max_radius_meters
            search = replace(search, community_ids=circle, radius_meters=self._radius_meters)
            await self._find_within(search, excluded)
            if self.candidates:
                return
        await self._record_farther(replace(search, radius_meters=max_radius_meters), excluded)

    async def _circles(self) -> Sequence[CommunityFilter]:
        ride = self.locked.ride
        if ride.community_id is None or ride.community_version is None or ride.tier is None:
            return [None]
        community = await communities.read_community_version(
            self._db, ride.community_id, ride.community_version
        )
        return communities.search_circles(community, ride.tier)

    async def _find_within(self, search: Search, excluded: Mapping[UUID, Verdict]) -> None:
        self.source, near = await location.scan_nearby(
            self._db, self._redis, search, excluded=excluded.keys()
        )
        for one in near:
            verdict = excluded.get(one.driver_id) or one.unavailable or "next"
            self._record(one.driver_id, one.distance_meters, verdict)
            if verdict == "next":
                self.candidates.append(Candidate(one.driver_id, one.distance_meters))
        self.candidates.sort(key=lambda one: one.distance_meters)
        del self.candidates[search.limit :]

    def _excluded(self) -> dict[UUID, Verdict]:
        # A driver who refused, and later lost an operator's offer to another driver, still has refused.
        excluded: dict[UUID, Verdict] = {
            one.driver_id: ASKED_BEFORE[one.response]
            for one in self.locked.offers
            if one.response in ASKED_BEFORE
        }
        excluded[self.locked.ride.passenger_id] = "own_ride"
        return excluded

    async def _record_farther(self, search: Search, excluded: Mapping[UUID, Verdict]) -> None:
        """Record the next drivers outside the radius; `too_far` are those who could be asked otherwise.

        PostgreSQL returns no stale positions, and a search in a community no drivers of others. These are
        recorded here too.
        """
        all_seen = search.community_ids is None and self.source == "redis"
        if search.radius_meters <= self._radius_meters and all_seen:
            return
        wider = replace(search, limit=len(self._seen) + MAX_TOO_FAR, include_unavailable=True)
        _, near = await location.find_nearby(self._db, self._redis, wider)
        for one in near:
            is_farther = one.distance_meters > self._radius_meters
            if is_farther or one.unavailable in ("stale", "outside_fence"):
                verdict = excluded.get(one.driver_id) or one.unavailable or "too_far"
                self._record(one.driver_id, one.distance_meters, verdict)

    def skip(self, candidate: Candidate) -> None:
        """Record that another ride has the driver."""
        self._record(candidate.driver_id, candidate.distance_meters, "locked")

    async def end_offering(
        self, asked: Sequence[Candidate], made: Sequence[Offer], locked: LockedRide
    ) -> None:
        """Record which of these candidates got an offer, and release the others."""
        self.locked = locked
        offer_ids = {offer.driver_id: offer.id for offer in made}
        for one in asked:
            offer_id = offer_ids.get(UserId(one.driver_id))
            self._record(one.driver_id, one.distance_meters, "offered" if offer_id else "snatched", offer_id)
        lost = [one.driver_id for one in asked if one.driver_id not in offer_ids]
        await location.release_drivers(self._redis, lost, ride_id=locked.ride.id)

    def record(self) -> SearchRecord:
        return SearchRecord(
            round=self.locked.ride.round,
            search=self._number,
            at=self.locked.now,
            radius_meters=self._radius_meters,
            source=self.source,
            cause=self._cause,
            outcome=self.outcome,
            next_at=self.next_at,
            verdicts=Counter(one.verdict for one in self._seen.values()),
            seen=self._nearest_seen(),
        )

    def _nearest_seen(self) -> list[SeenDriver]:
        """Return all drivers with an offer, and the nearest of the others."""
        offered = [one for one in self._seen.values() if one.verdict == "offered"]
        others = [one for one in self._seen.values() if one.verdict != "offered"]
        others.sort(key=lambda one: one.distance_meters)
        kept = offered + others[: max(0, MAX_SEEN - len(offered))]
        return sorted(kept, key=lambda one: one.distance_meters)

    def _record(
        self, driver_id: UUID, distance_meters: float, verdict: Verdict, offer_id: UUID | None = None
    ) -> None:
        self._seen[driver_id] = SeenDriver(driver_id, round(distance_meters), verdict, offer_id)


@dataclass(slots=True)
class OfferWish:
    """What a step wants: offers of its ride to the first `wanted` candidates that can be locked."""

    search: CandidateSearch
    # Candidates that were not tried yet, the best first.
    left: list[Candidate]
    wanted: int
    trace: str | None
    # Candidates that are locked for the ride.
    locked: list[Candidate] = field(default_factory=list[Candidate])
    # The number of offers made.
    made: int = 0

    def take(self, taken: set[UUID]) -> list[Candidate]:
        """Take as many candidates as are missing and add them to `taken`; those in it already are skipped."""
        candidates: list[Candidate] = []
        while self.left and len(self.locked) + len(candidates) < self.wanted:
            candidate = self.left.pop(0)
            if candidate.driver_id in taken:
                self.search.skip(candidate)
            else:
                taken.add(candidate.driver_id)
                candidates.append(candidate)
        return candidates

    def plan(self) -> OfferPlan:
        return OfferPlan(
            locked=self.search.locked,
            driver_ids=[UserId(one.driver_id) for one in self.locked],
            distances={one.driver_id: one.distance_meters for one in self.locked},
            trace=self.trace,
        )


async def make_offers(
    db: Db, redis: RedisClient, wishes: Sequence[OfferWish], *, ttl: timedelta, lease: timedelta
) -> None:
    """Make the offers that these searches of different rides want, and set their number in each wish.

    A ride whose candidates were all taken meanwhile tries the next ones, until it made an offer: a second
    insert after that, in another order of drivers, could deadlock with another ride's. For the same reason
    several rides make only one attempt; `RidesCollide` is raised if a driver was taken meanwhile.
    """
    while any(wish.left for wish in wishes):
        await _lock_candidates(db, redis, wishes, lease=lease)
        asked = [wish for wish in wishes if wish.locked]
        results = await rides.offer_rides(db, [wish.plan() for wish in asked], ttl=ttl)
        for wish, (made, locked) in zip(asked, results, strict=True):
            await wish.search.end_offering(wish.locked, made, locked)
            wish.made = len(made)
        if len(wishes) > 1 or any(wish.made for wish in wishes):
            return


async def _lock_candidates(
    db: Db, redis: RedisClient, wishes: Sequence[OfferWish], *, lease: timedelta
) -> None:
    """Lock as many candidates of each ride as it wants, if so many can be locked; each for one ride only."""
    taken: set[UUID] = set()
    for wish in wishes:
        wish.locked = []
    while tried := {one.driver_id: (wish, one) for wish in wishes for one in wish.take(taken)}:
        ride_ids = {driver_id: wish.search.locked.ride.id for driver_id, (wish, _) in tried.items()}
        reserved = await location.reserve_drivers(db, redis, ride_ids, ttl=lease)
        for driver_id, (wish, candidate) in tried.items():
            if driver_id in reserved:
                wish.locked.append(candidate)
            else:
                wish.search.skip(candidate)
