"""Random actions and faults in the simulation; afterwards every ride must have ended."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from types import ModuleType
from typing import Any

import hypothesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from catraca.domains.matching.search import model
from tests.domains.matching.simulation import laws
from tests.domains.matching.simulation.rides import RowLocked
from tests.domains.matching.simulation.steps import Driver, Fault
from tests.domains.matching.simulation.world import World

MAX_RIDES = 4
DRIVERS = 5
# Within the first radius, within a later one, and outside the largest.
PLACES = (0, 300, 1_000, 4_900, 6_000, 9_000, 14_000, 16_000)
PICKUPS = (0, 500, 7_000)
SECONDS = (1, 2, 3, 5, 10, 15, 19, 20, 21, 31, 60, 285)

numbers = st.integers(0, 11)
drivers = st.integers(1, DRIVERS)
effects = st.integers(1, 7)
# Actions of other processes in the middle of a step.
meanwhiles = st.sampled_from(("accept", "refuse", "offline", "recheck", "fire", "cancel", "wait", "forget"))
faults = st.one_of(
    st.none(),
    st.tuples(effects, st.none(), meanwhiles, numbers),
    st.tuples(st.none(), effects, meanwhiles, numbers),
    st.tuples(effects, effects, meanwhiles, numbers),
)


class Machine(RuleBasedStateMachine):
    core: ModuleType = model
    world: World

    @initialize(
        at_once=st.sampled_from((1, 1, 2, 3, 0)),
        attempts=st.sampled_from((2, 1, 4)),
        places=st.lists(st.sampled_from(PLACES), min_size=DRIVERS, max_size=DRIVERS),
        redis_fails=st.booleans(),
        bus_fails=st.booleans(),
        answer_at_last=st.sampled_from(("accept", "refuse", None)),
    )
    def begin(
        self,
        at_once: int,
        attempts: int,
        places: list[int],
        redis_fails: bool,
        bus_fails: bool,
        answer_at_last: str | None,
    ) -> None:
        rules = self.core.Rules(offers_at_once=at_once, max_attempts_per_search=attempts)
        self.world = World(self.core, rules)
        self.world.drivers = {name: Driver(place) for name, place in enumerate(places, start=1)}
        self.redis_fails, self.bus_fails = redis_fails, bus_fails
        self.answer_at_last = answer_at_last
        self.world.request()

    @precondition(lambda self: len(self.world.rides) < MAX_RIDES)
    @rule(pickup=st.sampled_from(PICKUPS))
    def request(self, pickup: int) -> None:
        self.world.request(pickup)

    @precondition(lambda self: self._offered())
    @rule(number=numbers, accepts=st.booleans())
    def answer(self, number: int, accepts: bool) -> None:
        offered = self._offered()
        (self.world.accept if accepts else self.world.refuse)(offered[number % len(offered)])

    @precondition(lambda self: self._driving())
    @rule(number=numbers, completes=st.booleans())
    def finish_ride(self, number: int, completes: bool) -> None:
        driving = self._driving()
        (self.world.complete if completes else self.world.give_up)(driving[number % len(driving)])

    @rule(number=numbers)
    def cancel(self, number: int) -> None:
        if number < len(self.world.rides):  # rarely true
            self.world.cancel(self._ride(number))

    @rule(number=numbers, driver=drivers, seconds=st.sampled_from((5, 60)))
    def offer_by_hand(self, number: int, driver: int, seconds: int) -> None:
        self.world.offer_by_hand(self._ride(number), driver, timedelta(seconds=seconds))

    @rule(driver=drivers, online=st.booleans(), place=st.sampled_from(PLACES), written=st.booleans())
    def move(self, driver: int, online: bool, place: int, written: bool) -> None:
        self.world.set_online(driver, online=online, at=place)
        self.world.drivers[driver].written = written

    @precondition(lambda self: self.world.bus)
    @rule(number=numbers, again=st.booleans(), fault=faults)
    def deliver(self, number: int, again: bool, fault: Any) -> None:
        self.world.deliver(number % len(self.world.bus), again=again, fault=self._fault(fault))

    @precondition(lambda self: self.bus_fails and self.world.bus)
    @rule(number=numbers)
    def lose(self, number: int) -> None:
        self.world.lose_message(number % len(self.world.bus))

    @precondition(lambda self: self.world.due())
    @rule(number=numbers, fault=faults)
    def fire(self, number: int, fault: Any) -> None:
        due = self.world.due()
        self.world.fire(due[number % len(due)], fault=self._fault(fault))

    @rule(seconds=st.sampled_from(SECONDS))
    def let_time_pass_without_workers(self, seconds: int) -> None:
        self.world.now += timedelta(seconds=seconds)

    @rule()
    def do_what_is_due(self) -> None:
        self.world.run(self.world.now)

    @rule(seconds=st.sampled_from(SECONDS))
    def let_time_pass(self, seconds: int) -> None:
        self.world.run(self.world.now + timedelta(seconds=seconds))

    @precondition(lambda self: self.redis_fails)
    @rule()
    def toggle_redis(self) -> None:
        if self.world.redis_up:
            self.world.lose_redis()
        else:
            self.world.redis_up = True

    @precondition(lambda self: self.redis_fails)
    @rule()
    def clear_redis(self) -> None:
        self.world.forget_locks()

    @rule(number=numbers)
    def repeat_a_step(self, number: int) -> None:
        """Also for events of an earlier round."""
        ride_id = self._ride(number)
        self.world.recheck(ride_id)
        before = self._seen()
        self.world.recheck(ride_id)
        assert self._seen() == before
        old = [event for _, event in self.world.bus if event.ride == ride_id]
        for event in old:
            if event.round < self.world.rides[ride_id].round:
                self.world.work(partial(self.world.start_search, event=event))
        assert self._seen() == before

    @invariant()
    def the_laws_hold(self) -> None:
        if hasattr(self, "world"):
            laws.check(self.world)

    def teardown(self) -> None:
        """Stop the faults, answer all offers or none, and check that every ride ended."""
        if not hasattr(self, "world"):
            return
        world, calm_since = self.world, self.world.now
        if self.bus_fails:
            world.lose_all_messages()
        if self.answer_at_last is not None:
            act = getattr(world, self.answer_at_last)
            world.answers = dict.fromkeys(world.drivers, (act, 7))
        world.run(calm_since + 3 * world.search)
        laws.check_rest(world, calm_since=calm_since)

    def _offered(self) -> list[int]:
        return sorted(offer.driver for offer in self.world.offers.values() if offer.response is None)

    def _driving(self) -> list[int]:
        return sorted(
            ride.driver for ride in self.world.rides.values() if ride.status == "ACCEPTED" and ride.driver
        )

    def _ride(self, number: int) -> int:
        return number % len(self.world.rides) + 1

    def _seen(self) -> tuple[Any, ...]:
        world = self.world
        return (
            dict(world.matchings),
            dict(world.offers),
            dict(world.timers),
            len(world.published),
            world.bus.copy(),
        )

    def _fault(self, drawn: Any) -> Fault | None:
        if drawn is None:
            return None
        dies_before, meanwhile_before, act_name, number = drawn
        return Fault(dies_before, meanwhile_before, partial(self._meanwhile, act_name, number))

    def _meanwhile(self, act_name: str, number: int) -> None:
        world, driver, ride_id = self.world, number % DRIVERS + 1, self._ride(number)
        acts: dict[str, Callable[[], None]] = {
            "accept": lambda: world.accept(driver),
            "refuse": lambda: world.refuse(driver),
            "offline": lambda: world.set_online(driver, online=False),
            "recheck": lambda: world.recheck(ride_id),
            "fire": lambda: world.fire(due[number % len(due)]) if (due := world.due()) else None,
            "cancel": lambda: world.cancel(ride_id),
            # Shorter than the time a lock outlives its offer.
            "wait": lambda: setattr(world, "now", world.now + timedelta(seconds=number % 4)),
            "forget": world.forget_locks if self.redis_fails else lambda: None,
        }
        with suppress(RowLocked):
            acts[act_name]()


def run_core_storms(storms: int, *, seed: int) -> str:
    """Run random simulations from a seed; return a summary. Raises if a law is broken."""
    counts: Counter[str] = Counter()

    class Counted(Machine):
        def teardown(self) -> None:
            super().teardown()
            counts.update(event.key for event in self.world.published)

    bounds = settings(
        max_examples=storms,
        stateful_step_count=60,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(hypothesis.seed(seed)(Counted), settings=bounds)
    return (
        f"{storms} storms: {counts['ride.requested']} rides, {counts['matching.candidate_found']} offers,"
        f" {counts['matching.driver_accepted']} accepted, {counts['ride.reassigning']} given up,"
        f" {counts['matching.retry']} more searches; every ride ended correctly"
    )
