"""A step, taken as `service/advancing.py` takes it, with drivers on a road and their locks in a Redis.

Between any two effects of a step whoever takes it may die, which undoes what the database was told and leaves
the locks; and others may act, as far as the rows that are held let them.
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
    RowHeld,
    Transaction,
)

# Events of one step; more can only be a step without an end.
EVENTS_AT_MOST = 12
# How many more are found than may be asked, as others may be faster.
SPARE = 2


class Crash(Exception):
    """Whoever was at work is dead."""


@dataclass
class Driver:
    at: int
    online: bool = True
    # Whether PostgreSQL has heard where the driver is; the map in Redis always has.
    written: bool = True


@dataclass(frozen=True, slots=True)
class Lock:
    ride: int
    until: datetime


@dataclass(frozen=True, slots=True)
class Looked:
    """One search: when, how far out, and whom it found."""

    ride: int
    round: int
    search: int
    at: datetime
    radius: int
    found: tuple[int, ...]


@dataclass
class Fault:
    """What goes wrong in a step, before which of its effects; the first is 1."""

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
        self.looks: dict[int, Looked] = {}
        self.drivers: dict[int, Driver] = {}
        self.locks: dict[int, Lock] = {}
        self.redis_up = True
        # Whether Redis has neither been away nor forgotten anything so far.
        self.redis_true = True
        self._fault, self._effects = Fault(), 0
        self._numbers = count()

    def work(self, work: Callable[[Transaction], None], fault: Fault | None = None) -> bool:
        """Whether it was done: not if the worker died, or came upon a ride in somebody else's hands."""
        outer = self._fault, self._effects
        self._fault, self._effects = fault or Fault(), 0
        try:
            with self.transaction() as tx:
                work(tx)
        except (Crash, RowHeld):
            return False
        finally:
            self._fault, self._effects = outer
        return True

    def _effect(self) -> None:
        """Before each effect: whatever was to go wrong here."""
        self._effects += 1
        if self._effects == self._fault.meanwhile_before:
            with suppress(RowHeld):  # they wait, and come after us
                self._fault.meanwhile()
        if self._effects == self._fault.dies_before:
            raise Crash

    def advance(self, tx: Transaction, ride_id: int, signal: Any = None) -> None:
        ride = self.hold_ride(tx, ride_id)
        matching = self.matchings.get(ride_id)
        if matching is None:
            if not ride.is_open:
                return
            matching = self.core.Matching(ride_id=UUID(int=ride_id), round=ride.round, started_at=ride.since)
        now, events = self.now, deque([(signal or self.core.Recheck)(self.standing(ride_id))])
        for _ in range(EVENTS_AT_MOST):
            if not events:
                break
            matching, effects = self.core.step(matching, events.popleft(), now, self.rules)
            for effect in effects:
                self._effect()
                events.extend(self._perform(tx, effect, ride_id, matching))
        assert not events, "the step never ends"
        assert matching.wake_at is None or matching.wake_at > now, "it would wake again at once, and again"
        self._effect()
        tx.put(self.matchings, ride_id, matching)
        self._effect()
        if matching.wake_at is None:
            tx.drop(self.timers, ("matching.due", ride_id))
        else:
            tx.put(self.timers, ("matching.due", ride_id), matching.wake_at)
        self._effect()

    def hold_ride(self, tx: Transaction, ride_id: int) -> Ride:
        ride = self.hold(tx, ride_id)
        if any(offer.expires_at <= self.now for offer in self.live(ride_id)):
            ride = self.expire(tx, ride)
            self.set_due(tx, ride)
        return ride

    def standing(self, ride_id: int) -> Any:
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
                yield self._look(tx, ride, matching, radius)
            case core.MakeOffers(candidates, wanted):
                yield self._offer(tx, ride, matching, candidates, wanted)
            case core.PublishRetry(search, radius, at, reason):
                if ride.status == "REQUESTED":
                    ride = self.move(tx, ride, "SEARCHING")
                    self.set_due(tx, ride)
                self.tell(tx, "matching.retry", ride, more=(search, radius, at, reason))
            case core.EndRide():
                was_asking = any(
                    offer.response == "EXPIRED" and offer.expires_at >= ride.deadline_at
                    for offer in self.offers_of(ride_id)
                    if offer.round == ride.round
                )
                searched = any(look.ride == ride_id for look in self.looks.values())
                ride = self.end_search(tx, ride, by="matching", searched=searched)
                key = "matching.timeout" if was_asking else "matching.no_drivers_available"
                self.tell(tx, key, ride)
            case _:
                raise AssertionError(f"nobody knows how to do {effect}")

    def _look(self, tx: Transaction, ride: Ride, matching: Any, radius: int) -> Any:
        not_these = {one.driver for one in self.offers_of(ride.id) if one.response in (None, *DECLINED)}
        near = sorted(
            (abs(driver.at - ride.pickup), name)
            for name, driver in self.drivers.items()
            if driver.online
            and name not in not_these
            and abs(driver.at - ride.pickup) <= radius
            and not self._is_busy(name)
            and (self.redis_up or driver.written)
        )[: self.rules.offers_at_once + SPARE]
        found = tuple(name for _, name in near)
        look = Looked(ride.id, ride.round, matching.search, self.now, radius, found)
        tx.put(self.looks, next(self._numbers), look)
        candidates = [self.core.Candidate(UUID(int=name), distance) for distance, name in near]
        return self.core.CandidatesFound(self.standing(ride.id), candidates, certain=self.redis_up)

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
                if self.take(left[0].driver_id.int, ride.id, self.offer_lease):
                    batch.append(left[0])
                left.pop(0)
            self._effect()
            names = [one.driver_id.int for one in batch]
            radius = [look.radius for look in self.looks.values() if look.ride == ride.id][-1]
            made = self.make_offers(
                tx,
                ride,
                names,
                ttl=self.offer_ttl,
                search=dict.fromkeys(names, matching.search),
                radius=dict.fromkeys(names, radius),
                distance={one.driver_id.int: one.distance_meters for one in batch},
            )
            self.let_go([name for name in names if name not in {offer.driver for offer in made}], ride.id)
        return self.core.OffersMade(self.standing(ride.id), len(made))

    def take(self, driver: int, ride_id: int, lease: timedelta) -> bool:
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

    def let_go(self, drivers: Iterable[int], ride_id: int) -> None:
        for driver in drivers:
            if self.redis_up and (lock := self.locks.get(driver)) and lock.ride == ride_id:
                del self.locks[driver]

    def let_go_of_all(self, ride_id: int, *, but: int | None = None) -> list[int]:
        """Answers who came free by no act of theirs."""
        answers = self.last_answers(ride_id)
        self.let_go([driver for driver in answers if driver != but], ride_id)
        return [driver for driver, answer in answers.items() if answer == "CANCELED"]

    def lose_redis(self) -> None:
        self.redis_up = self.redis_true = False

    def forget_locks(self) -> None:
        self.locks.clear()
        self.redis_true = False
