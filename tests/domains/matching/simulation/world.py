"""A simulation around the real model: drivers on a line, rides, locks, timers, a bus, and a clock.

It replaces the servers and matching's services, and simulates their faults: messages that are repeated, late,
reordered or lost; a process that dies in a step; a Redis that is away or loses its data.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

from catraca.domains.matching.search import model
from tests.domains.matching.simulation.rides import PublishedEvent, Transaction
from tests.domains.matching.simulation.steps import Driver, Fault, Steps

MAX_WOKEN = 3
RIDE_LEASE = timedelta(hours=1)


class World(Steps):
    def __init__(
        self,
        core: ModuleType = model,
        rules: Any = None,
        *,
        search: timedelta = timedelta(minutes=5),
        offer_ttl: timedelta = timedelta(seconds=20),
        offer_lease: timedelta = timedelta(seconds=25),
    ) -> None:
        super().__init__(
            core, rules or core.Rules(), search=search, offer_ttl=offer_ttl, offer_lease=offer_lease
        )
        # Messages in the queues: handler and event.
        self.bus: list[tuple[str, PublishedEvent]] = []
        # By driver: the answer to an offer and its delay in seconds; other drivers do not answer.
        self.answers: dict[int, tuple[Callable[[int], None], float]] = {}
        # Whether messages are delivered, and whether none was lost so far.
        self.delivers = self.bus_true = True
        self._acts: list[tuple[datetime, Callable[[], None]]] = []

    def publish(self, events: Sequence[PublishedEvent]) -> None:
        if self.delivers:
            self.bus += [(handler, one) for one in events for handler in HANDLERS.get(one.key, ())]
        for one in events:
            if one.key == "matching.candidate_found" and one.driver in self.answers:
                act, seconds = self.answers[one.driver]
                self.later(seconds, act, one.driver)

    def deliver(self, index: int = 0, *, again: bool = False, fault: Fault | None = None) -> None:
        """Deliver a message. It stays in the queue if the handler dies or `again` is set."""
        handler, event = message = self.bus[index]
        done = self.work(lambda tx: getattr(self, handler)(tx, event), fault)
        if done and not again:
            self.bus.remove(message)

    def lose_message(self, index: int) -> None:
        self.bus.pop(index)
        self.bus_true = False

    def lose_all_messages(self) -> None:
        """Lose all present and future messages."""
        self.bus.clear()
        self.delivers = self.bus_true = False

    def due(self) -> list[tuple[Any, int]]:
        return sorted(key for key, at in self.timers.items() if at <= self.now)

    def fire(self, timer: tuple[Any, int], *, fault: Fault | None = None) -> None:
        """Run a timer's handler in one transaction with its removal."""
        kind, ride_id = timer

        def handle(tx: Transaction) -> None:
            tx.drop(self.timers, timer)
            if kind == "rides.due":
                self.fire_ride_timer(tx, ride_id)
            else:
                self.advance(
                    tx, ride_id, self.core.Recheck if kind == "matching.due" else self.core.DriverNearby
                )

        self.work(handle, fault)

    def recheck(self, ride_id: int) -> None:
        self.work(lambda tx: self.advance(tx, ride_id))

    def later(self, seconds: float, act: Callable[..., None], *args: Any) -> None:
        """Call a function after some seconds."""
        self._acts.append((self.now + timedelta(seconds=seconds), lambda: act(*args)))

    def run(self, until: datetime | None = None) -> None:
        """Advance the clock and run due actions; without `until`, until none is left."""
        while True:
            self._do_what_is_due()
            moments = [*self.timers.values(), *(at for at, _ in self._acts)]
            if not moments or (until is not None and min(moments) > until):
                break
            self.now = max(self.now, min(moments))
        self.now = max(self.now, until or self.now)

    def _do_what_is_due(self) -> None:
        while True:
            acts = [one for one in self._acts if one[0] <= self.now]
            if self.bus:
                self.deliver()
            elif due := self.due():
                self.fire(due[0])
            elif acts:
                self._acts.remove(acts[0])
                acts[0][1]()
            else:
                return

    def set_online(self, driver: int, *, online: bool, at: int | None = None) -> None:
        one = self.drivers.setdefault(driver, Driver(0))
        one.online, one.at = online, one.at if at is None else at
        key = "location.driver.online" if online else "location.driver.offline"
        with self.transaction() as tx:
            tx.events.append(PublishedEvent(key=key, at=self.now, driver=driver))

    def start_search(self, tx: Transaction, event: PublishedEvent) -> None:
        self.advance(tx, _ride(event))

    def ask_next(self, tx: Transaction, event: PublishedEvent) -> None:
        self.release([_driver(event)], _ride(event))
        self.advance(tx, _ride(event))
        self.wake_around(tx, _driver(event), but=event.ride)

    def release_all_drivers(self, tx: Transaction, event: PublishedEvent) -> None:
        self.lock_and_expire(tx, _ride(event))
        self.release_all(_ride(event))

    def confirm_match(self, tx: Transaction, event: PublishedEvent) -> None:
        self.advance(tx, _ride(event))
        ride = self.rides[_ride(event)]
        if ride.status == "ACCEPTED" and ride.round == event.round and ride.driver == event.driver:
            self.lock_driver(_driver(event), ride.id, RIDE_LEASE)
            freed = self.release_all(ride.id, but=event.driver)
            self.record_event(tx, "ride.matched", ride, driver=event.driver)
            self.wake_around(tx, *freed)

    def release_driver(self, tx: Transaction, event: PublishedEvent) -> None:
        self.release([_driver(event)], _ride(event))
        self.wake_around(tx, _driver(event), but=event.ride)

    def stop(self, tx: Transaction, event: PublishedEvent) -> None:
        self.advance(tx, _ride(event))
        freed = self.release_all(_ride(event))
        self.wake_around(tx, *([] if event.driver is None else [event.driver]), *freed)

    def wake(self, tx: Transaction, event: PublishedEvent) -> None:
        self.wake_around(tx, _driver(event))

    def withdraw_offers(self, tx: Transaction, event: PublishedEvent) -> None:
        if not self.drivers[_driver(event)].online:
            self.withdraw(tx, _driver(event))

    def wake_around(self, tx: Transaction, *drivers: int, but: int | None = None) -> None:
        """Wake the longest waiting searches that reach one of the drivers."""
        for driver in drivers:
            waiting = sorted(
                (matching.started_at, ride_id)
                for ride_id, matching in self.matchings.items()
                if matching.phase == "searching" and matching.next_search_at is not None and ride_id != but
                if self._distance(ride_id, driver) <= self.rules.radius_of(matching.search)
            )
            for _, ride_id in waiting[:MAX_WOKEN]:
                tx.put(self.timers, ("matching.wake", ride_id), self.now)

    def _distance(self, ride_id: int, driver: int) -> int:
        return abs(self.rides[ride_id].pickup - self.drivers[driver].at)


# Handlers by key: one for each queue that is bound to it.
HANDLERS = {
    "ride.requested": ("start_search",),
    "ride.reassigning": ("start_search", "release_driver"),
    "matching.driver_rejected": ("ask_next",),
    "matching.driver_timeout": ("ask_next",),
    "matching.timeout": ("release_all_drivers",),
    "matching.no_drivers_available": ("release_all_drivers",),
    "location.driver.online": ("wake",),
    "location.driver.offline": ("withdraw_offers",),
    "matching.driver_accepted": ("confirm_match",),
    "ride.completed": ("release_driver",),
    "ride.cancelled": ("stop",),
}


def _ride(event: PublishedEvent) -> int:
    assert event.ride is not None
    return event.ride


def _driver(event: PublishedEvent) -> int:
    assert event.driver is not None
    return event.driver
