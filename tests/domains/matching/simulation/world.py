"""A small world around the real core: drivers on a road, rides, locks, timers, a bus, a clock one can set.

It does in a few lines what the servers and matching's services do, and lets go wrong what can: messages come
twice, late, in any order or never; whoever takes a step dies in the middle of it; Redis forgets, or is away.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

from catraca.domains.matching.search import model
from tests.domains.matching.simulation.rides import News, Transaction
from tests.domains.matching.simulation.steps import Driver, Fault, Steps

WOKEN_AT_MOST = 3
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
        # What is on its way: who handles it, and what it tells.
        self.bus: list[tuple[str, News]] = []
        # What drivers do when they are asked, and after how many seconds; others are silent.
        self.habits: dict[int, tuple[Callable[[int], None], float]] = {}
        # Whether anybody hears of anything, and whether everything was heard of so far.
        self.hears = self.bus_true = True
        self._acts: list[tuple[datetime, Callable[[], None]]] = []

    def publish(self, news: Sequence[News]) -> None:
        if self.hears:
            self.bus += [(handler, one) for one in news for handler in HANDLERS.get(one.key, ())]
        for one in news:
            if one.key == "matching.candidate_found" and one.driver in self.habits:
                act, seconds = self.habits[one.driver]
                self.later(seconds, act, one.driver)

    def deliver(self, index: int = 0, *, again: bool = False, fault: Fault | None = None) -> None:
        """Hand over a message. It stays in the queue if the handler dies, or if it is to come again."""
        handler, news = message = self.bus[index]
        done = self.work(lambda tx: getattr(self, handler)(tx, news), fault)
        if done and not again:
            self.bus.remove(message)

    def lose_message(self, index: int) -> None:
        self.bus.pop(index)
        self.bus_true = False

    def lose_all_messages(self) -> None:
        """Those on their way, and those to come."""
        self.bus.clear()
        self.hears = self.bus_true = False

    def due(self) -> list[tuple[Any, int]]:
        return sorted(key for key, at in self.timers.items() if at <= self.now)

    def fire(self, timer: tuple[Any, int], *, fault: Fault | None = None) -> None:
        """What the timer does when it is due; it goes, or is set again, with that."""
        kind, ride_id = timer

        def handle(tx: Transaction) -> None:
            tx.drop(self.timers, timer)
            if kind == "rides.due":
                self.settle_due(tx, ride_id)
            else:
                self.advance(
                    tx, ride_id, self.core.Recheck if kind == "matching.due" else self.core.DriverNearby
                )

        self.work(handle, fault)

    def nudge(self, ride_id: int) -> None:
        self.work(lambda tx: self.advance(tx, ride_id))

    def later(self, seconds: float, act: Callable[..., None], *args: Any) -> None:
        """Have somebody do something after a while."""
        self._acts.append((self.now + timedelta(seconds=seconds), lambda: act(*args)))

    def run(self, until: datetime | None = None) -> None:
        """Let time pass, everything happening when it is due; without an end, until nothing is."""
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

    def go(self, driver: int, *, online: bool, at: int | None = None) -> None:
        one = self.drivers.setdefault(driver, Driver(0))
        one.online, one.at = online, one.at if at is None else at
        key = "location.driver.online" if online else "location.driver.offline"
        with self.transaction() as tx:
            tx.news.append(News(key=key, at=self.now, driver=driver))

    def begin(self, tx: Transaction, news: News) -> None:
        self.advance(tx, _ride(news))

    def turn_to_next(self, tx: Transaction, news: News) -> None:
        self.let_go([_driver(news)], _ride(news))
        self.advance(tx, _ride(news))
        self.wake_around(tx, _driver(news), but=news.ride)

    def clear(self, tx: Transaction, news: News) -> None:
        self.hold_ride(tx, _ride(news))
        self.let_go_of_all(_ride(news))

    def settle(self, tx: Transaction, news: News) -> None:
        self.advance(tx, _ride(news))
        ride = self.rides[_ride(news)]
        if ride.status == "ACCEPTED" and ride.round == news.round and ride.driver == news.driver:
            self.take(_driver(news), ride.id, RIDE_LEASE)
            freed = self.let_go_of_all(ride.id, but=news.driver)
            self.tell(tx, "ride.matched", ride, driver=news.driver)
            self.wake_around(tx, *freed)

    def free(self, tx: Transaction, news: News) -> None:
        self.let_go([_driver(news)], _ride(news))
        self.wake_around(tx, _driver(news), but=news.ride)

    def stop(self, tx: Transaction, news: News) -> None:
        self.advance(tx, _ride(news))
        freed = self.let_go_of_all(_ride(news))
        self.wake_around(tx, *([] if news.driver is None else [news.driver]), *freed)

    def wake(self, tx: Transaction, news: News) -> None:
        self.wake_around(tx, _driver(news))

    def take_back(self, tx: Transaction, news: News) -> None:
        if not self.drivers[_driver(news)].online:
            self.withdraw(tx, _driver(news))

    def wake_around(self, tx: Transaction, *drivers: int, but: int | None = None) -> None:
        """Have those look at once whose next search reaches one of them, the longest waiting first."""
        for driver in drivers:
            waiting = sorted(
                (matching.started_at, ride_id)
                for ride_id, matching in self.matchings.items()
                if matching.phase == "searching" and matching.next_search_at is not None and ride_id != but
                if self._distance(ride_id, driver) <= self.rules.radius_of(matching.search)
            )
            for _, ride_id in waiting[:WOKEN_AT_MOST]:
                tx.put(self.timers, ("matching.wake", ride_id), self.now)

    def _distance(self, ride_id: int, driver: int) -> int:
        return abs(self.rides[ride_id].pickup - self.drivers[driver].at)


# Which handlers hear of what: one for each queue that is bound to it.
HANDLERS = {
    "ride.requested": ("begin",),
    "ride.reassigning": ("begin", "free"),
    "matching.driver_rejected": ("turn_to_next",),
    "matching.driver_timeout": ("turn_to_next",),
    "matching.timeout": ("clear",),
    "matching.no_drivers_available": ("clear",),
    "location.driver.online": ("wake",),
    "location.driver.offline": ("take_back",),
    "matching.driver_accepted": ("settle",),
    "ride.completed": ("free",),
    "ride.cancelled": ("stop",),
}


def _ride(news: News) -> int:
    assert news.ride is not None
    return news.ride


def _driver(news: News) -> int:
    assert news.driver is not None
    return news.driver
