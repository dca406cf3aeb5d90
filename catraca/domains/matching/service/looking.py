"""One look around: who is near, who of them can be asked, and why the others were not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final
from uuid import UUID

from catraca.domains import communities, location, rides
from catraca.domains.communities import Whose
from catraca.domains.location import Near, Search, Source
from catraca.domains.matching.model import Candidate, Matching
from catraca.domains.matching.store.searches import Cause, Outcome, SearchRecord, Seen, Verdict
from catraca.domains.people import UserId
from catraca.domains.rides import HeldRide, Response
from catraca.platform.database import Db
from catraca.platform.geo import Place
from catraca.platform.redis_client import RedisClient

# What is written down of one look: the nearest.
SEEN_AT_MOST = 50
TOO_FAR_AT_MOST = 5
# Whom the ride was offered to before, by what they answered; whoever lost an offer to another may be asked.
ASKED_BEFORE: Final[Mapping[Response | None, Verdict]] = {
    "REJECTED": "refused_before",
    "EXPIRED": "silent_before",
    "ACCEPTED": "gave_it_up",
    None: "asked_now",
}


class Looking:
    """What is seen and done is kept, for whoever asks later why nobody came."""

    def __init__(
        self, redis: RedisClient, db: Db, held: HeldRide, matching: Matching, *, cause: Cause
    ) -> None:
        self._redis = redis
        self._db = db
        # As it stands: once offers were made, with them.
        self.held = held
        self._matching = matching
        self._cause: Cause = cause
        self._radius_meters = 0
        self._seen: dict[UUID, Seen] = {}
        self.source: Source = "redis"
        self.candidates: list[Candidate] = []
        # What it comes to, and when to look again; until something is decided, things are as they were.
        self.outcome: Outcome = "waits_on"
        self.next_at = matching.next_search_at

    async def look(self, radius_meters: int, *, furthest_meters: int, limit: int, fresh: timedelta) -> None:
        not_these = self._not_these()
        place = Place(self.held.ride.pickup_lat, self.held.ride.pickup_lon)
        search = Search(place=place, radius_meters=radius_meters, limit=limit, fresh=fresh)
        *inner, outermost = await self._circles()
        for whose in (*inner, outermost):
            # The community's own are asked before anybody nearer, however far out they are.
            self._radius_meters = radius_meters if whose == outermost else furthest_meters
            search = replace(search, whose=whose, radius_meters=self._radius_meters)
            await self._look(search, not_these)
            if self.candidates:
                return
        await self._note_more(replace(search, radius_meters=furthest_meters), not_these)

    async def _circles(self) -> Sequence[Whose]:
        """Whose drivers are asked: a community's own before any others."""
        ride = self.held.ride
        if ride.community_id is None or ride.community_version is None or ride.tier is None:
            return [None]
        known = await communities.read_version(self._db, ride.community_id, ride.community_version)
        assert known is not None, "a ride's community and its version are held by a foreign key"
        return communities.circles_of(known, ride.tier)

    async def _look(self, search: Search, not_these: Mapping[UUID, Verdict]) -> None:
        self.source, near = await location.look_around(
            self._db, self._redis, search, not_these=not_these.keys()
        )
        for one in near:
            verdict = not_these.get(one.found.driver_id) or one.why_not or "next"
            self._note(one, verdict)
            if verdict == "next":
                self.candidates.append(
                    Candidate(one.found.driver_id, one.found.distance_meters, one.found.ping.at)
                )
        del self.candidates[search.limit :]

    def _not_these(self) -> dict[UUID, Verdict]:
        # Whoever refused, was asked by hand once more and then lost to another has still refused.
        before: dict[UUID, Verdict] = {
            one.driver_id: ASKED_BEFORE[one.response]
            for one in self.held.asked
            if one.response in ASKED_BEFORE
        }
        before[self.held.ride.passenger_id] = "own_ride"
        return before

    async def _note_more(self, search: Search, not_these: Mapping[UUID, Verdict]) -> None:
        """Nobody can be asked: note the next ones further out. Too far are those who could be asked else.

        PostgreSQL, unlike the map, leaves the silent out, and a community's search everybody else; they are
        noted with them.
        """
        is_all_seen = search.whose is None and self.source == "redis"
        if search.radius_meters <= self._radius_meters and is_all_seen:
            return
        everybody = replace(search, limit=len(self._seen) + TOO_FAR_AT_MOST, everybody=True)
        _, near = await location.find_nearby(self._db, self._redis, everybody)
        for one in near:
            is_further = one.found.distance_meters > self._radius_meters
            if is_further or one.why_not in ("stale", "outside_fence"):
                self._note(one, not_these.get(one.found.driver_id) or one.why_not or "too_far")

    async def offer(
        self, candidates: Sequence[Candidate], *, wanted: int, ttl: timedelta, lease: timedelta
    ) -> int:
        """Offer the ride to so many of them; answers how many took hold.

        Goes on to the next ones only while nobody has an offer: whoever inserts offers twice in one
        transaction, in two orders, may wait in a circle with somebody who does the same.
        """
        left = list(candidates)
        while left:
            batch: list[Candidate] = []
            while left and len(batch) < wanted:
                candidate = left.pop(0)
                if await self._take(candidate, lease):
                    batch.append(candidate)
            if made := await self._offer_to(batch, ttl):
                return made
        return 0

    async def _take(self, candidate: Candidate, lease: timedelta) -> bool:
        taken = await location.take_driver(
            self._db, self._redis, candidate.driver_id, ride_id=self.held.ride.id, ttl=lease
        )
        if not taken:
            self._judge(candidate, "locked")
        return taken

    async def _offer_to(self, batch: Sequence[Candidate], ttl: timedelta) -> int:
        if not batch:
            return 0
        made, self.held = await rides.offer_held(
            self._db,
            self.held,
            [UserId(one.driver_id) for one in batch],
            ttl=ttl,
            distances={one.driver_id: one.distance_meters for one in batch},
        )
        served = {offer.driver_id: offer.id for offer in made}
        for one in batch:
            offer_id = served.get(UserId(one.driver_id))
            self._judge(one, "offered" if offer_id else "snatched", offer_id)
        lost = [one.driver_id for one in batch if one.driver_id not in served]
        await location.let_go(self._redis, lost, ride_id=self.held.ride.id)
        return len(made)

    def record(self) -> SearchRecord:
        return SearchRecord(
            round=self._matching.round,
            search=self._matching.search,
            at=self.held.now,
            radius_meters=self._radius_meters,
            source=self.source,
            cause=self._cause,
            outcome=self.outcome,
            next_at=self.next_at,
            verdicts=Counter(one.verdict for one in self._seen.values()),
            seen=self._worth_keeping(),
        )

    def _worth_keeping(self) -> list[Seen]:
        """Whoever was offered the ride, however many are nearer; and the nearest of the others."""
        offered = [one for one in self._seen.values() if one.verdict == "offered"]
        others = [one for one in self._seen.values() if one.verdict != "offered"]
        others.sort(key=lambda one: one.distance_meters)
        kept = offered + others[: max(0, SEEN_AT_MOST - len(offered))]
        return sorted(kept, key=lambda one: one.distance_meters)

    def _note(self, near: Near, verdict: Verdict) -> None:
        driver_id = near.found.driver_id
        self._seen[driver_id] = Seen(driver_id, round(near.found.distance_meters), verdict)

    def _judge(self, candidate: Candidate, verdict: Verdict, offer_id: UUID | None = None) -> None:
        self._seen[candidate.driver_id] = Seen(
            candidate.driver_id, round(candidate.distance_meters), verdict, offer_id
        )
