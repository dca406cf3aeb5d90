"""Steps as in `search/service.py`, with drivers on a line and their locks in a simulated Redis.

Between two effects of a step the process can die, which rolls the database back and leaves the locks; and
other transactions can act, as far as the row locks allow.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from types import ModuleType
from typing import Any
from uuid import UUID

from tests.domains.matching.simulation.rides import (
    DECLINED,
    OVER,
    Offer,
    Ride,
    Rides,
    RowLocked,
    Transaction,
)

# Events of one step; more means an endless loop.
MAX_EVENTS = 12
# Candidates found beyond the number wanted.
SPARE = 2


class Crash(Exception):
    """The process died."""


@dataclass
class Driver:
    at: int
    online: bool = True
    # Whether PostgreSQL has the driver's position; Redis always has it.
    written: bool = True


@dataclass(frozen=True, slots=True)
class Lock:
    ride: int
    until: datetime


@dataclass(frozen=True, slots=True)
class SearchRun:
    """A search and the drivers it found."""

    ride: int
    round: int
    search: int
    at: datetime
    radius: int
    found: tuple[int, ...]


@dataclass
class Fault:
    """Faults of a step, each before the effect with this number, counted from 1."""

    dies_before: int | None = None
    meanwhile_before: int | None = None
    meanwhile: Callable[[], None] = lambda: None


class Steps(Rides):
    def __init__(
        self, core: ModuleType, rules: Any, *, search: timedelta, offer_ttl: timedelta, offer_lease: timedelta
    ) -> None:
        super().__init__(search=search)
        self.core = core
        self.rules = rules
        self.offer_ttl = offer_ttl
        self.offer_lease = offer_lease
        self.matchings: dict[int, Any] = {}
        self.searches: dict[int, SearchRun] = {}
        self.drivers: dict[int, Driver] = {}
        self.locks: dict[int, Lock] = {}
        self.redis_up = True
        # True until Redis was away or lost its data.
        self.redis_true = True
        self._fault, self._effects = Fault(), 0
        self._numbers = count()

    def work(self, work: Callable[[Transaction], None], fault: Fault | None = None) -> bool:
        """Return False if the process died or the ride was locked."""
        outer = self._fault, self._effects
        self._fault, self._effects = fault or Fault(), 0
        try:
            with self.transaction() as tx:
                work(tx)
        except (Crash, RowLocked):
            return False
        finally:
            self._fault, self._effects = outer
        return True

    def _effect(self) -> None:
        """Run the faults that are set for the next effect."""
        self._effects += 1
        if self._effects == self._fault.meanwhile_before:
            with suppress(RowLocked):  # other transactions wait for the lock
                self._fault.meanwhile()
        if self._effects == self._fault.dies_before:
            raise Crash

    def advance(self, tx: Transaction, ride_id: int, signal: Any = None) -> None:
        ride = self.lock_and_expire(tx, ride_id)
        matching = self.matchings.get(ride_id)
        if matching is None:
            if not ride.is_open:
                return
            matching = self.core.Matching(ride_id=UUID(int=ride_id), round=ride.round, started_at=ride.since)
        now, events = self.now, deque([(signal or self.core.Recheck)(self.ride_state(ride_id))])
        for _ in range(MAX_EVENTS):
            if not events:
                break
            matching, effects = self.core.step(matching, events.popleft(), now, self.rules)
            for effect in effects:
                self._effect()
                events.extend(self._perform(tx, effect, ride_id, matching))
        assert not events, "endless step"
        assert matching.wake_at is None or matching.wake_at > now, "the wake time is not in the future"
        self._effect()
        tx.put(self.matchings, ride_id, matching)
        self._effect()
        if matching.wake_at is None:
            tx.drop(self.timers, ("matching.due", ride_id))
        else:
            tx.put(self.timers, ("matching.due", ride_id), matching.wake_at)
        self._effect()

    def lock_and_expire(self, tx: Transaction, ride_id: int) -> Ride:
        ride = self.lock_ride(tx, ride_id)
        if any(offer.expires_at <= self.now for offer in self.live(ride_id)):
            ride = self.expire(tx, ride)
            self.set_due(tx, ride)
        return ride

    def ride_state(self, ride_id: int) -> Any:
        ride, live = self.rides[ride_id], self.live(ride_id)
        return self.core.RideState(
            state="open" if ride.is_open else "over" if ride.status in OVER else "taken",
            round=ride.round,
            since=ride.since,
            deadline_at=ride.deadline_at,
            live=len(live),
            expires_at=min((offer.expires_at for offer in live), default=None),
        )

    def _perform(self, tx: Transaction, effect: Any, ride_id: int, matching: Any) -> Iterable[Any]:
        core, ride = self.core, self.rides[ride_id]
        match effect:
            case core.FindCandidates(radius):
                yield self._find(tx, ride, matching, radius)
            case core.MakeOffers(candidates, wanted):
                yield self._offer(tx, ride, matching, candidates, wanted)
            case core.PublishRetry(search, radius, at, reason):
                if ride.status == "REQUESTED":
                    ride = self.move(tx, ride, "SEARCHING")
                    self.set_due(tx, ride)
                self.record_event(tx, "matching.retry", ride, more=(search, radius, at, reason))
            case core.EndRide():
                had_open_offer = any(
                    offer.response == "EXPIRED" and offer.expires_at >= ride.deadline_at
                    for offer in self.offers_of(ride_id)
                    if offer.round == ride.round
                )
                searched = any(run.ride == ride_id for run in self.searches.values())
                ride = self.end_search(tx, ride, by="matching", searched=searched)
                key = "matching.timeout" if had_open_offer else "matching.no_drivers_available"
                self.record_event(tx, key, ride)
            case _:
                raise AssertionError(f"unknown effect {effect}")

    def _find(self, tx: Transaction, ride: Ride, matching: Any, radius: int) -> Any:
        excluded = {one.driver for one in self.offers_of(ride.id) if one.response in (None, *DECLINED)}
        near = sorted(
            (abs(driver.at - ride.pickup), name)
            for name, driver in self.drivers.items()
            if driver.online
            and name not in excluded
            and abs(driver.at - ride.pickup) <= radius
            and not self._is_busy(name)
            and (self.redis_up or driver.written)
        )[: self.rules.offers_at_once + SPARE]
        found = tuple(name for _, name in near)
        search = SearchRun(ride.id, ride.round, matching.search, self.now, radius, found)
        tx.put(self.searches, next(self._numbers), search)
        candidates = [self.core.Candidate(UUID(int=name), distance) for distance, name in near]
        return self.core.CandidatesFound(self.ride_state(ride.id), candidates, certain=self.redis_up)

    def _is_busy(self, driver: int) -> bool:
        offer = self.held_offer(driver)
        return offer is not None and (offer.response == "ACCEPTED" or offer.expires_at > self.now)

    def _offer(
        self, tx: Transaction, ride: Ride, matching: Any, candidates: Sequence[Any], wanted: int
    ) -> Any:
        left, made = list(candidates), list[Offer]()
        while left and not made:
            batch: list[Any] = []
            while left and len(batch) < wanted:
                self._effect()
                if self.lock_driver(left[0].driver_id.int, ride.id, self.offer_lease):
                    batch.append(left[0])
                left.pop(0)
            self._effect()
            names = [one.driver_id.int for one in batch]
            radius = [search.radius for search in self.searches.values() if search.ride == ride.id][-1]
            made = self.make_offers(
                tx,
                ride,
                names,
                ttl=self.offer_ttl,
                search=dict.fromkeys(names, matching.search),
                radius=dict.fromkeys(names, radius),
                distance={one.driver_id.int: one.distance_meters for one in batch},
            )
            self.release([name for name in names if name not in {offer.driver for offer in made}], ride.id)
        return self.core.OffersMade(self.ride_state(ride.id), len(made))

    def lock_driver(self, driver: int, ride_id: int, lease: timedelta) -> bool:
        if not self.redis_up:
            return True
        lock, until = self.lock_of(driver), self.now + lease
        if lock is not None and lock.ride != ride_id and self.rides[lock.ride].status not in OVER:
            return False
        self.locks[driver] = Lock(ride_id, max(until, lock.until) if lock and lock.ride == ride_id else until)
        return True

    def lock_of(self, driver: int) -> Lock | None:
        lock = self.locks.get(driver)
        return lock if lock and lock.until > self.now else None

    def release(self, drivers: Iterable[int], ride_id: int) -> None:
        for driver in drivers:
            if self.redis_up and (lock := self.locks.get(driver)) and lock.ride == ride_id:
                del self.locks[driver]

    def release_all(self, ride_id: int, *, but: int | None = None) -> list[int]:
        """Return the drivers whose offer was canceled."""
        answers = self.last_answers(ride_id)
        self.release([driver for driver in answers if driver != but], ride_id)
        return [driver for driver, answer in answers.items() if answer == "CANCELED"]

    def lose_redis(self) -> None:
        self.redis_up = self.redis_true = False

    def forget_locks(self) -> None:
        self.locks.clear()
        self.redis_true = False
