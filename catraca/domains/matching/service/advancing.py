"""Taking the next step of a search: the ride is held, the core decides, and what it decides is done.

All of it is one transaction; whoever dies in it has done nothing. Only the locks in Redis outlive that: they
are this ride's, so its next step takes them again, and they end by themselves.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from catraca.domains import rides
from catraca.domains.matching.model import (
    DriverNear,
    Effect,
    Event,
    Found,
    GiveUp,
    Look,
    Matching,
    Nudged,
    Offer,
    Offered,
    Rules,
    Score,
    Standing,
    TellRetry,
    by_distance,
    step,
)
from catraca.domains.matching.service import figures, telling
from catraca.domains.matching.service.looking import Looking
from catraca.domains.matching.store import matchings as store
from catraca.domains.matching.store import searches as search_store
from catraca.domains.matching.store.searches import Cause
from catraca.domains.rides import EndedSearch, HeldRide, RideId
from catraca.platform.database import Db, after_commit, outbox, timers
from catraca.platform.database.timers import TimerKind
from catraca.platform.geo import Place
from catraca.platform.redis_client import RedisClient

MATCHING_DUE = TimerKind("matching.due")
# How many more than are wanted are found at once: others may be faster.
SPARE = 4
Signal = Callable[[Standing], Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """By what rules drivers are found, how long they may think, and for how long they are locked."""

    rules: Rules
    offer_ttl: timedelta
    offer_lease: timedelta
    # A driver of whom nothing was heard for longer is not asked.
    fresh: timedelta


@dataclass(frozen=True, slots=True)
class Step:
    """How the ride stood before it, and the search after it."""

    held: HeldRide
    matching: Matching | None


class Matcher:
    """One process's hand in it; any number may work on any ride."""

    def __init__(self, redis: RedisClient, terms: Terms, *, score: Score = by_distance) -> None:
        self.redis = redis
        self.terms = terms
        self.score = score

    async def advance(self, db: Db, ride_id: UUID, signal: Signal = Nudged) -> Step | None:
        """Take the next step of this ride's search, if there is one to take. Safe to repeat, at any time.

        Answers how the ride stood, which is held from now on; None when there is no such ride.
        """
        held = await rides.hold_ride(db, RideId(ride_id))
        if held is None:
            return None
        before = await store.read_matching(db, ride_id)
        if before is None and not held.ride.is_open and not held.ride.has_run_out:
            return Step(held, None)
        turn = _Turn(self, db, held)
        after = await turn.take(before, signal)
        if after != before:
            await store.save_matching(db, after, turn.place)
        if after.wake_at is None:
            await timers.cancel_timer(db, MATCHING_DUE, ride_id)
        else:
            await timers.set_timer(db, MATCHING_DUE, ride_id, due_at=after.wake_at)
        return Step(held, after)


class _Turn:
    """One step with everything that follows from it, while the ride is held."""

    def __init__(self, matcher: Matcher, db: Db, held: HeldRide) -> None:
        self._matcher = matcher
        self._rules = matcher.terms.rules
        self._db = db
        self._held = held
        self.place = Place(held.ride.pickup_lat, held.ride.pickup_lon)
        self._looking: Looking | None = None
        self._cause: Cause = "begun"

    async def take(self, matching: Matching | None, signal: Signal) -> Matching:
        standing = self._standing()
        self._cause = self._why(matching, signal)
        was_ended_elsewhere = self._was_ended_elsewhere(matching)
        if matching is None:
            matching = Matching(
                ride_id=self._held.ride.id, round=self._held.ride.round, started_at=standing.since
            )
        events: deque[Event] = deque([signal(standing)])
        while events:
            matching, effects = step(matching, events.popleft(), self._held.now, self._rules)
            for effect in effects:
                answer = await self._perform(effect, matching)
                if answer is not None:
                    events.append(answer)
        if self._looking is not None:
            if self._looking.outcome in ("asked", "waits_on"):  # nothing was told of the next one
                self._looking.next_at = matching.next_search_at
            await search_store.insert_search(self._db, self._held.ride.id, self._looking.record())
        if was_ended_elsewhere:
            await self._tell_end(await rides.read_ended_search(self._db, self._held.ride), matching)
        return matching

    def _was_ended_elsewhere(self, matching: Matching | None) -> bool:
        """Whether the ride ran out before anybody here had heard of it, or was there: yet to be told."""
        ride = self._held.ride
        if not ride.has_run_out:
            return False
        return matching is None or (matching.round, matching.phase) != (ride.round, "ended")

    def _why(self, matching: Matching | None, signal: Signal) -> Cause:
        """What leads to a look, should this step take one."""
        if matching is None or matching.round < self._held.ride.round:
            return "begun"
        if signal is DriverNear:
            return "driver_near"
        planned_at = matching.next_search_at
        return "due" if planned_at is not None and planned_at <= self._held.now else "offer_ended"

    def _standing(self) -> Standing:
        ride = self._held.ride
        return Standing(
            state="open" if ride.is_open else "taken" if ride.is_driven else "over",
            round=ride.round,
            since=ride.created_at if ride.round == 1 else ride.updated_at,
            deadline_at=ride.deadline_at,
            live=self._held.live,
            expires_at=self._held.first_expiry,
        )

    async def _perform(self, effect: Effect, matching: Matching) -> Event | None:
        match effect:
            case Look(radius_meters):
                return await self._look(matching, radius_meters)
            case Offer():
                return await self._offer(effect, matching)
            case TellRetry():
                await self._tell_retry(effect, matching)
            case GiveUp():
                await self._give_up(matching)
        return None

    async def _look(self, matching: Matching, radius_meters: int) -> Found:
        if self._looking is not None:  # an empty search, followed by a wider one at once
            await search_store.insert_search(self._db, self._held.ride.id, self._looking.record())
        looking = Looking(self._matcher.redis, self._db, self._held, matching, cause=self._cause)
        terms = self._matcher.terms
        await looking.look(
            radius_meters,
            furthest_meters=self._rules.max_radius_meters,
            limit=self._rules.offers_at_once + SPARE,
            fresh=terms.fresh,
        )
        self._looking = looking
        candidates = sorted(looking.candidates, key=self._matcher.score)
        after_commit(self._db, lambda: figures.SEARCHES.labels("some" if candidates else "nobody").inc())
        return Found(self._standing(), candidates, certain=looking.source == "redis")

    async def _offer(self, effect: Offer, matching: Matching) -> Offered:
        assert self._looking is not None, "whoever is offered a ride was found before"
        made = await self._looking.offer(
            effect.candidates,
            wanted=effect.wanted,
            ttl=self._matcher.terms.offer_ttl,
            lease=self._matcher.terms.offer_lease,
        )
        if made:
            self._looking.outcome = "asked"
            is_first = not self._held.asked
            self._held = self._looking.held
            waited = self._held.now - matching.started_at
            after_commit(self._db, lambda: figures.count_offers(made, waited if is_first else None))
        return Offered(self._standing(), made)

    async def _tell_retry(self, effect: TellRetry, matching: Matching) -> None:
        ride = await rides.begin_search(self._db, self._held.ride, news="matching.retry")
        self._held = replace(self._held, ride=ride)
        await outbox.record(self._db, telling.retry(ride, effect))
        if self._looking is not None:
            self._looking.outcome, self._looking.next_at = effect.reason, effect.at
        if effect.reason == "all_asked":
            self._cause = "all_asked"

    async def _give_up(self, matching: Matching) -> None:
        searches, _ = await search_store.last_search(self._db, matching.ride_id, matching.round)
        ended = await rides.end_search(self._db, self._held.ride, searched=searches > 0)
        await self._tell_end(ended, matching)

    async def _tell_end(self, ended: EndedSearch, matching: Matching) -> None:
        searches, radius_meters = await search_store.last_search(self._db, ended.ride.id, ended.ride.round)
        news = telling.search_ended(
            ended, started_at=matching.started_at, searches=searches, radius_meters=radius_meters
        )
        await outbox.record(self._db, news)
        after_commit(self._db, lambda: figures.ENDS.labels(news.reason).inc())
