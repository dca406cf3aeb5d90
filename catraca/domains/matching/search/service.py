"""Takes steps of a search: locks the ride, lets the model decide, performs the effects.

A step is one transaction; a process that dies in it leaves no change. Only the locks in Redis remain: they
belong to this ride, so its next step takes them again, and they expire.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from prometheus_client import Counter, Histogram

from catraca.domains import location, rides
from catraca.domains.matching.candidates import store as search_store
from catraca.domains.matching.candidates.model import Cause
from catraca.domains.matching.candidates.service import CandidateSearch
from catraca.domains.matching.outcome.service import publish_end
from catraca.domains.matching.search import store
from catraca.domains.matching.search.model import (
    CandidatesFound,
    DriverNearby,
    Effect,
    EndRide,
    Event,
    FindCandidates,
    MakeOffers,
    Matching,
    OffersMade,
    PublishRetry,
    Recheck,
    RideState,
    Rules,
    step,
)
from catraca.domains.rides import LockedRide, RideId
from catraca.events import MatchingRetry
from catraca.platform.database import Db, outbox, timers
from catraca.platform.database.timers import TimerKind
from catraca.platform.geo import Place, cells_around
from catraca.platform.redis_client import RedisClient

MATCHING_DUE = TimerKind("matching.due")
MATCHING_WAKE = TimerKind("matching.wake")
# Candidates found beyond the number wanted, because other rides can lock them first.
SPARE = 4
# A driver can take one ride; more are woken in case the first search does not ask this driver.
MAX_WOKEN = 3
Signal = Callable[[RideState], Event]

SEARCHES = Counter(
    "catraca_matching_searches_total", "Searches for drivers, by whether candidates were found.", ["found"]
)
OFFERS = Counter("catraca_matching_offers_total", "Offers made by matching.")
FIRST_OFFER_SECONDS = Histogram(
    "catraca_matching_first_offer_seconds",
    "Time from the start of a search to its first offer.",
    buckets=(0.1, 0.5, 1, 2, 5, 10, 20, 40, 60, 120, 300),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    rules: Rules
    offer_ttl: timedelta
    # How long a driver with an offer stays locked.
    offer_lease: timedelta
    # Drivers with an older position are not asked.
    fresh: timedelta


@dataclass(frozen=True, slots=True)
class StepResult:
    """The ride before the step, locked to the end of the transaction, and the search after it."""

    locked: LockedRide
    matching: Matching | None

    @property
    def started_at(self) -> datetime:
        """Start of the search in the ride's present round."""
        ride, matching = self.locked.ride, self.matching
        return matching.started_at if matching and matching.round == ride.round else ride.created_at


class Matcher:
    """Safe to use in many processes, on any ride."""

    def __init__(self, redis: RedisClient, terms: Terms) -> None:
        self.redis = redis
        self.terms = terms

    async def advance_search(self, db: Db, ride_id: UUID, signal: Signal = Recheck) -> StepResult | None:
        """Take the next step of a ride's search, if one is due. Safe to repeat at any time.

        Returns None for an unknown ride.
        """
        locked = await rides.lock_for_search(db, RideId(ride_id))
        if locked is None:
            return None
        before = await store.read_matching(db, ride_id)
        if before is None and not locked.ride.is_open and not locked.ride.has_run_out:
            return StepResult(locked, None)
        search_step = _SearchStep(self, db, locked)
        after = await search_step.run(before, signal)
        if after != before:
            await store.save_matching(db, after, search_step.pickup)
        if after.wake_at is None:
            await timers.cancel_timer(db, MATCHING_DUE, ride_id)
        else:
            await timers.set_timer(db, MATCHING_DUE, ride_id, due_at=after.wake_at)
        return StepResult(locked, after)

    async def wake_searches(self, db: Db, *places: Place, but: UUID | None = None) -> None:
        """Run the longest waiting searches that reach one of the places at once, except the ride `but`."""
        rules = self.terms.rules
        woken: set[UUID] = set()
        for place in places:
            cells = cells_around(place, rules.max_radius_meters)
            woken.update(await store.waiting_near(db, place, cells, rules=rules, but=but, limit=MAX_WOKEN))
        if woken:  # in one statement: two transactions that set the same timers one by one could deadlock
            await timers.set_timer(db, MATCHING_WAKE, *woken, due_in=timedelta(0))

    async def wake_searches_near(
        self, db: Db, driver_ids: Sequence[UUID], *, but: UUID | None = None
    ) -> None:
        """The same at the last known places of the first few drivers."""
        known = [await location.last_place(db, self.redis, one) for one in driver_ids[:MAX_WOKEN]]
        await self.wake_searches(db, *(place for place in known if place is not None), but=but)


class _SearchStep:
    """One step with all its effects, under the lock of the ride."""

    def __init__(self, matcher: Matcher, db: Db, locked: LockedRide) -> None:
        self._matcher = matcher
        self._rules = matcher.terms.rules
        self._db = db
        self._locked = locked
        self.pickup = Place(locked.ride.pickup_lat, locked.ride.pickup_lon)
        self._search: CandidateSearch | None = None
        self._cause: Cause = "begun"

    async def run(self, matching: Matching | None, signal: Signal) -> Matching:
        state = self._ride_state()
        self._cause = self._cause_of(matching, signal)
        end_is_unpublished = self._end_is_unpublished(matching)
        if matching is None:
            matching = Matching(
                ride_id=self._locked.ride.id, round=self._locked.ride.round, started_at=state.since
            )
        events: deque[Event] = deque([signal(state)])
        while events:
            matching, effects = step(matching, events.popleft(), self._locked.now, self._rules)
            for effect in effects:
                result = await self._perform(effect, matching)
                if result is not None:
                    events.append(result)
        if self._search is not None:
            if self._search.outcome in ("asked", "waits_on"):  # no retry event has set the next search
                self._search.next_at = matching.next_search_at
            await search_store.insert_search(self._db, self._locked.ride.id, self._search.record())
        if end_is_unpublished:
            await publish_end(self._db, self._locked, started_at=matching.started_at)
        return matching

    def _end_is_unpublished(self, matching: Matching | None) -> bool:
        """Return True if the ride's own timer ended it before a step of matching did."""
        ride = self._locked.ride
        if not ride.has_run_out:
            return False
        return matching is None or (matching.round, matching.phase) != (ride.round, "ended")

    def _cause_of(self, matching: Matching | None, signal: Signal) -> Cause:
        """Return the cause to record if this step searches."""
        if matching is None or matching.round < self._locked.ride.round:
            return "begun"
        if signal is DriverNearby:
            return "driver_near"
        planned_at = matching.next_search_at
        return "due" if planned_at is not None and planned_at <= self._locked.now else "offer_ended"

    def _ride_state(self) -> RideState:
        ride = self._locked.ride
        return RideState(
            state="open" if ride.is_open else "taken" if ride.is_driven else "over",
            round=ride.round,
            since=ride.created_at if ride.round == 1 else ride.updated_at,
            deadline_at=ride.deadline_at,
            live=self._locked.live,
            expires_at=self._locked.first_expiry,
        )

    async def _perform(self, effect: Effect, matching: Matching) -> Event | None:
        match effect:
            case FindCandidates(radius_meters):
                return await self._find_candidates(matching, radius_meters)
            case MakeOffers():
                return await self._make_offers(effect, matching)
            case PublishRetry():
                await self._publish_retry(effect)
            case EndRide():
                await self._end_ride(matching)
        return None

    async def _find_candidates(self, matching: Matching, radius_meters: int) -> CandidatesFound:
        if self._search is not None:  # a search without candidates, followed by a wider one at once
            await search_store.insert_search(self._db, self._locked.ride.id, self._search.record())
        self._search = search = CandidateSearch(
            self._matcher.redis,
            self._db,
            self._locked,
            number=matching.search,
            cause=self._cause,
            next_at=matching.next_search_at,
        )
        await search.find(
            radius_meters,
            max_radius_meters=self._rules.max_radius_meters,
            limit=self._rules.offers_at_once + SPARE,
            fresh=self._matcher.terms.fresh,
        )
        self._db.after_commit(lambda: SEARCHES.labels("some" if search.candidates else "nobody").inc())
        return CandidatesFound(self._ride_state(), search.candidates, certain=search.source == "redis")

    async def _make_offers(self, effect: MakeOffers, matching: Matching) -> OffersMade:
        assert self._search is not None, "offers follow a search"
        made = await self._search.make_offers(
            effect.candidates,
            wanted=effect.wanted,
            ttl=self._matcher.terms.offer_ttl,
            lease=self._matcher.terms.offer_lease,
        )
        if made:
            self._search.outcome = "asked"
            is_first = not self._locked.offers
            self._locked = self._search.locked
            waited = self._locked.now - matching.started_at
            self._db.after_commit(lambda: _count_offers(made, waited if is_first else None))
        return OffersMade(self._ride_state(), made)

    async def _publish_retry(self, effect: PublishRetry) -> None:
        ride = await rides.begin_search(self._db, self._locked.ride, news="matching.retry")
        self._locked = replace(self._locked, ride=ride)
        await outbox.record(
            self._db,
            MatchingRetry(
                ride_id=ride.id,
                round=ride.round,
                search=effect.search,
                radius_meters=effect.radius_meters,
                retry_at=effect.at,
                reason=effect.reason,
            ),
        )
        if self._search is not None:
            self._search.outcome, self._search.next_at = effect.reason, effect.at
        if effect.reason == "all_asked":
            self._cause = "all_asked"

    async def _end_ride(self, matching: Matching) -> None:
        searches, _ = await search_store.last_search(self._db, matching.ride_id, matching.round)
        ended = await rides.end_search(self._db, self._locked.ride, searched=searches > 0)
        await publish_end(self._db, ended, started_at=matching.started_at)


def _count_offers(made: int, first_after: timedelta | None) -> None:
    OFFERS.inc(made)
    if first_after is not None:
        FIRST_OFFER_SECONDS.observe(first_after.total_seconds())
