"""Finds candidates for a ride, offers the ride to them, and records the drivers it saw."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from catraca.domains.rides import LockedRide, Response
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

    async def make_offers(
        self, candidates: Sequence[Candidate], *, wanted: int, ttl: timedelta, lease: timedelta
    ) -> int:
        """Offer the ride to up to `wanted` candidates; return how many offers were made.

        Stops after the first batch with an offer: a second insert in the same transaction, in another order
        of drivers, could deadlock with another ride's.
        """
        left = list(candidates)
        while left:
            batch: list[Candidate] = []
            while left and len(batch) < wanted:
                candidate = left.pop(0)
                if await self._lock(candidate, lease):
                    batch.append(candidate)
            if made := await self._offer_to(batch, ttl):
                return made
        return 0

    async def _lock(self, candidate: Candidate, lease: timedelta) -> bool:
        locked = await location.reserve_driver(
            self._db, self._redis, candidate.driver_id, ride_id=self.locked.ride.id, ttl=lease
        )
        if not locked:
            self._record(candidate.driver_id, candidate.distance_meters, "locked")
        return locked

    async def _offer_to(self, batch: Sequence[Candidate], ttl: timedelta) -> int:
        if not batch:
            return 0
        made, self.locked = await rides.offer_ride(
            self._db,
            self.locked,
            [UserId(one.driver_id) for one in batch],
            ttl=ttl,
            distances={one.driver_id: one.distance_meters for one in batch},
        )
        offer_ids = {offer.driver_id: offer.id for offer in made}
        for one in batch:
            offer_id = offer_ids.get(UserId(one.driver_id))
            self._record(one.driver_id, one.distance_meters, "offered" if offer_id else "snatched", offer_id)
        lost = [one.driver_id for one in batch if one.driver_id not in offer_ids]
        await location.release_drivers(self._redis, lost, ride_id=self.locked.ride.id)
        return len(made)

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
