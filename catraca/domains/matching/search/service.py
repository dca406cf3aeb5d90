"""Takes steps of a search: locks the ride, lets the model decide, performs the effects.

A step is one transaction; a process that dies in it leaves no change. Only the locks in Redis remain: they
belong to this ride, so its next step takes them again, and they expire.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from prometheus_client import Counter, Histogram

from catraca.domains import location, rides
from catraca.domains.matching.candidates import store as search_store
from catraca.domains.matching.candidates.model import Cause, SearchRecord
from catraca.domains.matching.candidates.service import CandidateSearch, OfferWish, make_offers
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
from catraca.domains.rides import LockedRide, Ride, RideId
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
        (result,) = await self._advance(db, {locked.ride.id: outbox.current_trace()}, [locked], signal)
        return result

    async def advance_searches(self, db: Db, traces: Mapping[UUID, str | None]) -> list[StepResult]:
        """The same for several rides in one transaction; `traces` has the cause of each ride's step.

        Raises `RidesCollide` if some of them need a transaction of their own; the caller then rolls back.
        """
        if len(traces) > 1:
            locked = await rides.lock_all_for_search(db, [RideId(one) for one in traces])
            return await self._advance(db, traces, locked, Recheck)
        ((ride_id, trace),) = traces.items()
        with outbox.caused_by(trace):
            result = await self.advance_search(db, ride_id)
        return [] if result is None else [result]

    async def _advance(
        self, db: Db, traces: Mapping[UUID, str | None], all_locked: Sequence[LockedRide], signal: Signal
    ) -> list[StepResult]:
        before = await store.read_matchings(db, traces)
        steps = {
            locked.ride.id: _SearchStep(
                self, db, locked, before.get(locked.ride.id), trace=traces[locked.ride.id]
            )
            for locked in all_locked
            if locked.ride.id in before or locked.ride.is_open or locked.ride.has_run_out
        }
        for step_of_ride in steps.values():
            await step_of_ride.begin(signal)
        await make_offers(
            db,
            self.redis,
            [one.wish for one in steps.values() if one.wish is not None],
            ttl=self.terms.offer_ttl,
            lease=self.terms.offer_lease,
        )
        for step_of_ride in steps.values():
            await step_of_ride.end()
        await self._save(db, list(steps.values()))
        return [
            StepResult(one, steps[one.ride.id].matching if one.ride.id in steps else None)
            for one in all_locked
        ]

    async def _save(self, db: Db, steps: Sequence["_SearchStep"]) -> None:
        """Write searches, their records and timers, one statement each."""
        await search_store.insert_searches(
            db, [(one.ride_id, record) for one in steps for record in one.records]
        )
        await store.save_matchings(db, [(one.matching, one.pickup) for one in steps if one.has_changed])
        due_at = {one.ride_id: one.matching.wake_at for one in steps if one.matching.wake_at is not None}
        await timers.set_timers(db, MATCHING_DUE, due_at)
        if closed := [one.ride_id for one in steps if one.ride_id not in due_at]:
            await timers.cancel_timer(db, MATCHING_DUE, *closed)

    async def wake_searches(self, db: Db, *places: Place, but: UUID | None = None) -> None:
        """Run the longest waiting searches that reach one of the places at once, except the ride `but`."""
        rules = self.terms.rules
        woken: set[UUID] = set()
        for place in places:
            cells = cells_around(place, rules.max_radius_meters)
            woken.update(await store.waiting_near(db, place, cells, rules=rules, but=but, limit=MAX_WOKEN))
        if woken:  # in one statement: two transactions that set the same timers one by one could deadlock
            await timers.set_timer(db, MATCHING_WAKE, *woken, due_in=timedelta(0))

    async def wake_searches_near(self, db: Db, *available: Sequence[UUID], but: UUID | None = None) -> None:
        """The same at the last known places of the first few drivers of each list."""
        driver_ids = [one for drivers in available for one in drivers[:MAX_WOKEN]]
        places = await location.last_places(db, self.redis, driver_ids)
        await self.wake_searches(db, *places.values(), but=but)


class _SearchStep:
    """One step with all its effects, under the lock of the ride: `begin`, then its offers, then `end`."""

    def __init__(
        self, matcher: Matcher, db: Db, locked: LockedRide, before: Matching | None, *, trace: str | None
    ) -> None:
        self._matcher = matcher
        self._rules = matcher.terms.rules
        self._db = db
        self._locked = locked
        self._before = before
        self._trace = trace
        self._end_is_unpublished = _end_is_unpublished(locked.ride, before)
        self._search: CandidateSearch | None = None
        self._cause: Cause = "begun"
        self.pickup = Place(locked.ride.pickup_lat, locked.ride.pickup_lon)
        self.matching = before or Matching(
            ride_id=locked.ride.id, round=locked.ride.round, started_at=self._ride_state().since
        )
        # The offers that the step wants to make, if any.
        self.wish: OfferWish | None = None
        # The searches of this step that are complete.
        self.records: list[SearchRecord] = []

    @property
    def ride_id(self) -> UUID:
        return self.matching.ride_id

    @property
    def has_changed(self) -> bool:
        return self.matching != self._before

    async def begin(self, signal: Signal) -> None:
        """Let the model decide, and perform the effects up to the offers."""
        self._cause = self._cause_of(self._before, signal)
        with outbox.caused_by(self._trace):
            await self._handle(signal(self._ride_state()))

    async def end(self) -> None:
        """Perform the effects that follow the offers."""
        with outbox.caused_by(self._trace):
            if self.wish is not None:
                await self._handle(self._after_offers(self.wish.made))
            if self._search is not None:
                if self._search.outcome in ("asked", "waits_on"):  # no retry event has set the next search
                    self._search.next_at = self.matching.next_search_at
                self.records.append(self._search.record())
            if self._end_is_unpublished:
                await publish_end(self._db, self._locked, started_at=self.matching.started_at)

    async def _handle(self, event: Event) -> None:
        events = deque([event])
        while events:
            self.matching, effects = step(self.matching, events.popleft(), self._locked.now, self._rules)
            for effect in effects:
                result = await self._perform(effect, self.matching)
                if result is not None:
                    events.append(result)

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
                assert self._search is not None, "offers follow a search"
                self.wish = OfferWish(self._search, list(effect.candidates), effect.wanted, self._trace)
            case PublishRetry():
                await self._publish_retry(effect)
            case EndRide():
                await self._end_ride(matching)
        return None

    async def _find_candidates(self, matching: Matching, radius_meters: int) -> CandidatesFound:
        if self._search is not None:  # a search without candidates, followed by a wider one at once
            self.records.append(self._search.record())
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

    def _after_offers(self, made: int) -> OffersMade:
        assert self._search is not None, "offers follow a search"
        if made:
            self._search.outcome = "asked"
            is_first = not self._locked.offers
            self._locked = self._search.locked
            waited = self._locked.now - self.matching.started_at
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


def _end_is_unpublished(ride: Ride, matching: Matching | None) -> bool:
    """Return True if the ride's own timer ended it before a step of matching did."""
    if not ride.has_run_out:
        return False
    return matching is None or (matching.round, matching.phase) != (ride.round, "ended")
