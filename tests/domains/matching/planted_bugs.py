"""Typical bugs in matching, each with the check that must find it.

A bug replaces one text in a copy of a module's source. If the text is not there any more, the test fails:
adapt the bug to the code.
"""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from prometheus_client import CollectorRegistry

from tests.domains.matching import planted_bug_checks as checks
from tests.domains.matching import test_scenarios as scenarios
from tests.domains.matching.harness import MatchingHarness
from tests.domains.matching.simulation.machine import Machine

MODEL = "catraca.domains.matching.search.model"
SEARCHED = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    phases=(Phase.generate,),
)


def altered(module_name: str, old: str, new: str) -> ModuleType:
    """Return a copy of the module with the replaced text."""
    path = Path(str(import_module(module_name).__file__))
    source = path.read_text("utf-8")
    assert source.count(old) == 1, f"{module_name} does not have this once any more: {old}"
    module = ModuleType(module_name)
    module.__file__, module.__package__ = str(path), module_name.rpartition(".")[0]
    with patch.object(CollectorRegistry, "register"):  # the copy's metrics are not registered a second time
        exec(compile(source.replace(old, new), path, "exec"), module.__dict__)
    return module


@dataclass(frozen=True)
class CoreBug:
    """In the model: found by a scenario, or by random simulations."""

    name: str
    old: str
    new: str
    found_by: Callable[[ModuleType], None]

    def core(self) -> ModuleType:
        return altered(MODEL, self.old, self.new)


@dataclass(frozen=True)
class ServiceBug:
    """In a service: found on real servers."""

    name: str
    module: str
    old: str
    new: str
    found_by: Callable[[MatchingHarness], Awaitable[None]]

    def plant(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the module's functions and classes everywhere by those of the altered copy."""
        original, copy = import_module(self.module), altered(self.module, self.old, self.new)
        ours = {
            name: thing
            for name, thing in vars(original).items()
            if name == "HANDLERS" or _is_defined_in(thing, self.module)
        }
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith(("catraca.", "tests.domains.matching.")):
                for name, thing in list(vars(module).items()):
                    if name in ours and ours[name] is thing:
                        monkeypatch.setattr(module, name, vars(copy)[name])


def _is_defined_in(thing: object, module_name: str) -> bool:
    return callable(thing) and getattr(thing, "__module__", None) == module_name


def storm(core: ModuleType) -> None:
    """Random actions, until a law is broken."""
    run_state_machine_as_test(type("Planted", (Machine,), {"core": core}), settings=SEARCHED)


CORE_BUGS = (
    CoreBug(
        "the deadline is not checked",
        'if now >= ride.deadline_at:\n        return _close(matching, "ended"), (EndRide(),)',
        "if False:\n        pass",
        scenarios.test_scenario_4_no_driver_in_five_minutes,
    ),
    CoreBug(
        "the search ends and the ride does not",
        'return _close(matching, "ended"), (EndRide(),)',
        'return _close(matching, "ended"), ()',
        storm,
    ),
    CoreBug(
        "a search with an accepted ride is not closed",
        'return _close(matching, "matched" if ride.state == "taken" else "ended"), ()',
        "return matching, ()",
        storm,
    ),
    CoreBug(
        "a search is closed and its timer stays",
        "phase=phase, next_search_at=None, wake_at=None)",
        "phase=phase, next_search_at=None)",
        scenarios.test_scenario_1_the_driver_accepts,
    ),
    CoreBug(
        "a ride that was canceled counts as matched",
        '"matched" if ride.state == "taken" else "ended"',
        '"matched"',
        scenarios.test_passenger_can_cancel_at_any_moment,
    ),
    CoreBug(
        "events of an earlier round are not ignored",
        "if ride.round < matching.round:\n        return matching, ()  # that round is over\n    ",
        "",
        scenarios.test_ride_state_of_an_earlier_round_is_ignored,
    ),
    CoreBug(
        "a new round is not detected",
        "if ride.round > matching.round:",
        "if False:",
        scenarios.test_driver_can_give_up_at_any_moment,
    ),
    CoreBug(
        "a new round keeps the counts of the old round",
        "matching = Matching(ride_id=matching.ride_id, round=ride.round, started_at=ride.since)",
        'matching = replace(matching, round=ride.round, phase="searching")',
        scenarios.test_given_up_ride_starts_a_new_round,
    ),
    CoreBug(
        "the radius does not grow",
        "(search - 1) * self.radius_increment_meters",
        "0 * self.radius_increment_meters",
        scenarios.test_scenario_4_no_driver_in_five_minutes,
    ),
    CoreBug(
        "the radius grows a search too early",
        "(search - 1) * self.radius_increment_meters",
        "search * self.radius_increment_meters",
        scenarios.test_wider_search_starts_after_the_last_answer,
    ),
    CoreBug(
        "the radius has no limit",
        "return min(grown, self.max_radius_meters)",
        "return grown",
        scenarios.test_scenario_4_no_driver_in_five_minutes,
    ),
    CoreBug(
        "a search makes one offer too many",
        "rules.max_attempts_per_search - matching.offers",
        "rules.max_attempts_per_search - matching.offers + 1",
        scenarios.test_attempt_limit_starts_the_next_search,
    ),
    CoreBug(
        "a search counts only its last offers",
        "offers=matching.offers + offered.made",
        "offers=offered.made",
        scenarios.test_attempt_limit_starts_the_next_search,
    ),
    CoreBug(
        "a new search keeps the count of the old search",
        "search=matching.search + 1, offers=0,",
        "search=matching.search + 1,",
        scenarios.test_attempt_limit_starts_the_next_search,
    ),
    CoreBug(
        "one parallel offer too many",
        "rules.offers_at_once - ride.live",
        "rules.offers_at_once + 1 - ride.live",
        scenarios.test_scenario_1_the_driver_accepts,
    ),
    CoreBug(
        "open offers do not count",
        "rules.offers_at_once - ride.live",
        "rules.offers_at_once",
        scenarios.test_no_offer_beyond_the_parallel_limit,
    ),
    CoreBug(
        "all candidates get an offer",
        "(MakeOffers(found.candidates, wanted),)",
        "(MakeOffers(found.candidates, len(found.candidates)),)",
        storm,
    ),
    CoreBug(
        "an empty search does not wait",
        "later = now + rules.search_retry_interval",
        "later = now",
        scenarios.test_scenario_4_no_driver_in_five_minutes,
    ),
    CoreBug(
        "the wider search does not start at once",
        "return replace(matching, next_search_at=None), (*retries, _find(matching, rules))",
        "return replace(matching, next_search_at=now + rules.search_retry_interval), retries",
        scenarios.test_scenario_4_no_driver_in_five_minutes,
    ),
    CoreBug(
        "any event shortens a wait",
        "if _is_waiting(matching, event.ride, now):",
        "if False:",
        scenarios.test_repeated_event_does_not_shorten_a_wait,
    ),
    CoreBug(
        "the last refusal does not end the wait",
        "return not _all_answered(matching, ride) or matching.next_search_at <= now + SHORT_WAIT",
        "return True",
        scenarios.test_wider_search_starts_after_the_last_answer,
    ),
    CoreBug(
        "any event repeats the search while an offer is open",
        "return matching.offers > 0 and ride.live == 0",
        "return matching.offers > 0",
        scenarios.test_search_waits_for_the_last_open_offer,
    ),
    CoreBug(
        "the wider search starts while an offer is open",
        "if found.ride.live > 0:",
        "if False:",
        scenarios.test_open_offer_blocks_the_wider_search,
    ),
    CoreBug(
        "the next search starts while an offer is open",
        "if ride.live > 0 or rules.offers_at_once <= 0:",
        "if rules.offers_at_once <= 0:",
        scenarios.test_open_offer_blocks_the_wider_search,
    ),
    CoreBug(
        "drivers are searched although operators make the offers",
        "if ride.live > 0 or rules.offers_at_once <= 0:",
        "if ride.live > 0:",
        scenarios.test_no_search_if_operators_make_the_offers,
    ),
    CoreBug(
        "a driver near by wakes no search",
        "case DriverNearby():\n            return _continue_search(matching, event.ride, now, rules)",
        "case DriverNearby():\n            return matching, ()",
        scenarios.test_driver_coming_online_wakes_a_waiting_search,
    ),
    CoreBug(
        "a wakeup without candidates starts another search",
        "if matching.next_search_at is not None and now < matching.next_search_at:",
        "if False:",
        scenarios.test_search_woken_without_candidates_keeps_its_time,
    ),
    CoreBug(
        "a Redis outage counts as no driver near",
        "if not found.certain:",
        "if False:",
        scenarios.test_without_redis_the_search_repeats_soon,
    ),
    CoreBug(
        "a locked candidate is tried again without a wait",
        "at = now + min(wait, rules.search_retry_interval)",
        "at = now",
        scenarios.test_candidates_locked_by_others_are_tried_again_soon,
    ),
    CoreBug(
        "a locked candidate counts as asked",
        "if offered.made <= 0:",
        "if False:",
        scenarios.test_candidates_locked_by_others_are_tried_again_soon,
    ),
    CoreBug(
        "no timer is set",
        "return _set_wake_time(matching, ride), effects",
        "return matching, effects",
        storm,
    ),
    CoreBug(
        "the timer leaves out the next search",
        "[ride.deadline_at, matching.next_search_at, ride",
        "[ride.deadline_at, ride",
        scenarios.test_scenario_4_no_driver_in_five_minutes,
    ),
    CoreBug(
        "the timer leaves out an offer's end, whose event can be lost",
        ", ride.expires_at and ride.expires_at + SHORT_WAIT]",
        "]",
        scenarios.test_lost_event_costs_two_seconds,
    ),
    CoreBug(
        "the timer leaves out the deadline",
        "[ride.deadline_at, matching",
        "[ride.deadline_at + SHORT_WAIT, matching",
        scenarios.test_scenario_4_no_driver_in_five_minutes,
    ),
    CoreBug(
        "a retry is published for a search after the deadline",
        "if at >= ride.deadline_at:",
        "if False:",
        scenarios.test_scenario_4_no_driver_in_five_minutes,
    ),
)

SERVICE_BUGS = (
    ServiceBug(
        "the lock is shorter than the offer",
        "catraca.domains.matching.search.service",
        "lease=self.terms.offer_lease",
        "lease=self.terms.offer_ttl * 0.75",
        checks.lock_outlives_its_offer,
    ),
    ServiceBug(
        "the settings allow a lock that is shorter than the offer",
        "catraca.settings",
        "return max(self.location.lock_ttl, self.rides.driver_response_timeout + LEASE_GRACE)",
        "return self.location.lock_ttl",
        checks.settings_make_locks_outlive_offers,
    ),
    ServiceBug(
        "a driver who refused gets another offer",
        "catraca.domains.matching.candidates.service",
        '    "REJECTED": "refused_before",\n',
        "",
        checks.refusal_is_final,
    ),
    ServiceBug(
        "a driver who did not answer gets another offer",
        "catraca.domains.matching.candidates.service",
        '    "EXPIRED": "silent_before",\n',
        "",
        checks.silence_is_final,
    ),
    ServiceBug(
        "open offers are not seen, so a repeated refusal counts twice",
        "catraca.domains.matching.search.service",
        "live=self._locked.live,",
        "live=0,",
        checks.repeated_refusal_counts_once,
    ),
    ServiceBug(
        "the nearest driver gets the last offer",
        "catraca.domains.matching.candidates.service",
        "self.candidates.sort(key=lambda one: one.distance_meters)",
        "self.candidates.sort(key=lambda one: -one.distance_meters)",
        checks.nearest_driver_is_asked,
    ),
    ServiceBug(
        "the message is acknowledged before the work is committed",
        "catraca.platform.bus.queue_worker",
        "admitted = await self._subscription.admit(db, deliveries)",
        "admitted = await self._database.run(lambda own: self._subscription.admit(own, deliveries))",
        checks.crash_loses_no_message,
    ),
    ServiceBug(
        "the timer is not set with the step",
        "catraca.domains.matching.search.service",
        "await timers.set_timers(db, MATCHING_DUE, due_at)",
        "pass",
        checks.search_has_a_timer,
    ),
    ServiceBug(
        "the step is not saved",
        "catraca.domains.matching.search.service",
        "return self.matching != self._before",
        "return self._before is None",
        checks.empty_search_counts,
    ),
    ServiceBug(
        "a driver who refused stays locked",
        "catraca.domains.matching.search.handlers",
        "ride_id=event.ride_id)\n    await matcher.advance_search",
        "ride_id=event.offer_id)\n    await matcher.advance_search",
        checks.refusal_releases_the_driver,
    ),
    ServiceBug(
        "a lock of another ride is released",
        "catraca.domains.location.locks.service",
        "await release_lease(redis, *map(lock_key, driver_ids), holder=str(ride_id))",
        "for one in map(lock_key, driver_ids):\n"
        '                await release_lease(redis, one, holder=await read_holder(redis, one) or "")',
        checks.late_event_keeps_other_locks,
    ),
    ServiceBug(
        "the driver who accepted is released with the others",
        "catraca.domains.matching.outcome.service",
        "await release_drivers(redis, match.locked, but=match.event.driver_id)",
        "await release_drivers(redis, match.locked)",
        checks.acceptance_keeps_the_lock,
    ),
    ServiceBug(
        "a match is published after the driver gave up",
        "catraca.domains.matching.outcome.service",
        "return ride.is_driven and ride.round == event.round and ride.accepted_driver_id == event.driver_id",
        "return True",
        checks.late_event_publishes_no_match,
    ),
    ServiceBug(
        "no search is woken",
        "catraca.domains.matching.search.service",
        "if woken:",
        "if False:",
        checks.driver_near_wakes_a_search,
    ),
)
