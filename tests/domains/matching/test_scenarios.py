"""The four scenarios of the RFC and more, with their real times on a simulated clock.

Each test takes the model as an argument, so that `test_planted_bugs.py` can run it on altered copies.
"""

from datetime import datetime, timedelta
from itertools import pairwise
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from catraca.domains.matching.search import model
from tests.domains.matching.simulation.rides import START
from tests.domains.matching.simulation.steps import Driver, Fault, Lock
from tests.domains.matching.simulation.world import World

HALF_MINUTES = ("02:00", "02:30", "03:00", "03:30", "04:00", "04:30", "05:00", "05:30")


@pytest.fixture
def core() -> ModuleType:
    return model


def at(clock: str) -> datetime:
    minutes, seconds = clock.split(":")
    return START + timedelta(minutes=int(minutes), seconds=int(seconds))


def clock(moment: datetime) -> str:
    minutes, seconds = divmod(round((moment - START).total_seconds()), 60)
    return f"{minutes:02}:{seconds:02}"


def world_with(core: ModuleType, drivers: dict[int, int], **rules: Any) -> World:
    """Return a world with drivers by their distance in metres."""
    world = World(core, core.Rules(**rules))
    world.drivers = {name: Driver(meters) for name, meters in drivers.items()}
    return world


def history(world: World, ride_id: int = 1) -> list[tuple[Any, ...]]:
    """Return the ride's events: time, key, driver, attempt and further data."""
    lines: list[tuple[Any, ...]] = []
    for event in world.published:
        if event.ride == ride_id:
            driver = () if event.driver is None else (event.driver,)
            attempt = () if event.attempt is None else (event.attempt,)
            more = tuple(clock(one) if isinstance(one, datetime) else one for one in event.more)
            lines.append((clock(event.at), event.key, *driver, *attempt, *more))
    return lines


def offers(world: World, ride_id: int = 1) -> list[tuple[str, int]]:
    return [(clock(offer.at), offer.driver) for offer in world.offers_of(ride_id)]


def searches(world: World, ride_id: int = 1) -> list[tuple[str, int, int]]:
    return [(clock(one.at), one.search, one.radius) for one in world.searches.values() if one.ride == ride_id]


def is_idle(world: World) -> bool:
    """Return True without open offers, locks, messages and timers."""
    live = [offer for offer in world.offers.values() if offer.response is None]
    return not (live or world.bus or world.timers or any(map(world.lock_of, world.drivers)))


def test_scenario_1_the_driver_accepts(core: ModuleType) -> None:
    world = world_with(core, {101: 1000, 102: 2000, 103: 3000})
    world.answers = {101: (world.accept, 10)}
    ride_id = world.request()
    world.run(at("00:09"))
    assert world.rides[ride_id].status == "OFFERED"
    assert world.locks == {101: Lock(ride_id, at("00:25"))}, "the lock outlives the offer"
    assert world.timers == {("rides.due", 1): at("00:20"), ("matching.due", 1): at("00:22")}
    world.run(at("00:10"))
    assert history(world) == [
        ("00:00", "ride.requested"),
        ("00:00", "matching.candidate_found", 101, 1),
        ("00:10", "matching.driver_accepted", 101, 1),
        ("00:10", "ride.matched", 101),
    ]
    assert world.rides[ride_id].status == "ACCEPTED"
    assert world.locks[101].until > at("30:00"), "the ride has the lock now"
    assert (world.matchings[ride_id].phase, world.timers) == ("matched", {})


def test_scenario_2_the_driver_refuses(core: ModuleType) -> None:
    world = world_with(core, {101: 1000, 102: 2000, 103: 3000})
    world.answers = {101: (world.refuse, 8), 102: (world.accept, 10)}
    ride_id = world.request()
    world.run(at("00:08"))
    assert world.locks == {102: Lock(ride_id, at("00:33"))}, "the driver who refused is free"
    world.run(at("01:00"))
    assert history(world) == [
        ("00:00", "ride.requested"),
        ("00:00", "matching.candidate_found", 101, 1),
        ("00:08", "matching.driver_rejected", 101, 1),
        ("00:08", "matching.candidate_found", 102, 2),
        ("00:18", "matching.driver_accepted", 102, 2),
        ("00:18", "ride.matched", 102),
    ]


def test_scenario_3_the_driver_is_silent(core: ModuleType) -> None:
    world = world_with(core, {101: 1000, 102: 2000, 103: 3000})
    world.answers = {102: (world.accept, 0)}
    ride_id = world.request()
    world.run(at("00:19"))
    assert world.lock_of(101) == Lock(ride_id, at("00:25"))
    world.run(at("01:00"))
    assert history(world) == [
        ("00:00", "ride.requested"),
        ("00:00", "matching.candidate_found", 101, 1),
        ("00:20", "matching.driver_timeout", 101, 1),
        ("00:20", "matching.candidate_found", 102, 2),
        ("00:20", "matching.driver_accepted", 102, 2),
        ("00:20", "ride.matched", 102),
    ]
    assert world.lock_of(101) is None


def test_scenario_4_no_driver_in_five_minutes(core: ModuleType) -> None:
    world = world_with(core, {101 + n: 400 * (n + 1) for n in range(10)})
    refusals = {102: 5, 104: 3, 106: 7, 108: 4, 110: 2}
    world.answers = {driver: (world.refuse, seconds) for driver, seconds in refusals.items()}
    ride_id = world.request()
    world.run()
    tried = ["00:00", "00:20", "00:25", "00:45", "00:48", "01:08", "01:15", "01:35", "01:39", "01:59"]
    answered = [*tried[1:], "02:01"]
    expected: list[tuple[Any, ...]] = [("00:00", "ride.requested")]
    for attempt, (begun, ended) in enumerate(zip(tried, answered, strict=True), start=1):
        driver = 100 + attempt
        end = "matching.driver_rejected" if driver in refusals else "matching.driver_timeout"
        expected.append((begun, "matching.candidate_found", driver, attempt))
        expected.append((ended, end, driver, attempt))
    assert history(world) == [
        *expected,
        ("02:01", "matching.retry", 2, 7_500, "02:01", "all_asked"),
        ("02:01", "matching.retry", 3, 10_000, "02:31", "nobody_near"),
        ("02:31", "matching.retry", 4, 12_500, "03:01", "nobody_near"),
        ("03:01", "matching.retry", 5, 15_000, "03:31", "nobody_near"),
        ("03:31", "matching.retry", 6, 15_000, "04:01", "nobody_near"),
        ("04:01", "matching.retry", 7, 15_000, "04:31", "nobody_near"),
        # No retry for 05:01: it is after the deadline.
        ("05:00", "ride.cancelled"),
        ("05:00", "matching.no_drivers_available"),
    ]
    assert searches(world) == [
        *((moment, 1, 5_000) for moment in tried),
        ("02:01", 2, 7_500),
        ("02:31", 3, 10_000),
        ("03:01", 4, 12_500),
        ("03:31", 5, 15_000),
        ("04:01", 6, 15_000),
        ("04:31", 7, 15_000),
    ]
    assert world.rides[ride_id].status == "CANCELED"
    assert world.matchings[ride_id].phase == "ended"
    assert is_idle(world)


def test_parallel_offers_replace_a_refusal_at_once(core: ModuleType) -> None:
    world = world_with(core, {1: 100, 2: 200, 3: 300, 4: 400, 5: 500}, offers_at_once=3)
    world.answers = {2: (world.refuse, 5), 3: (world.accept, 8)}
    ride_id = world.request()
    world.run(at("00:07"))
    assert offers(world) == [("00:00", 1), ("00:00", 2), ("00:00", 3), ("00:05", 4)]
    assert world.locks.keys() == {1, 3, 4}
    world.run(at("01:00"))
    assert history(world)[-4:] == [
        ("00:08", "offer.canceled", 1, 1),
        ("00:08", "offer.canceled", 4, 4),
        ("00:08", "matching.driver_accepted", 3, 3),
        ("00:08", "ride.matched", 3),
    ]
    assert world.locks.keys() == {3}, "the other drivers are free"
    assert world.matchings[ride_id].phase == "matched"


def test_wider_search_starts_after_the_last_answer(core: ModuleType) -> None:
    world = world_with(core, {1: 100, 2: 6000}, offers_at_once=2)
    world.answers = {1: (world.refuse, 5)}
    world.request()
    world.run(at("00:04"))
    assert offers(world) == [("00:00", 1)]
    world.run(at("00:05"))
    assert offers(world) == [("00:00", 1), ("00:05", 2)]
    assert searches(world) == [("00:00", 1, 5000), ("00:05", 1, 5000), ("00:05", 2, 7500)]


def test_open_offer_blocks_the_wider_search(core: ModuleType) -> None:
    for most in (10, 2):  # no other driver near, or the attempt limit reached
        world = world_with(core, {1: 100, 2: 200, 3: 6000}, offers_at_once=2, max_attempts_per_search=most)
        world.answers = {1: (world.refuse, 5)}
        world.request()
        world.run(at("00:21"))
        assert offers(world) == [("00:00", 1), ("00:00", 2), ("00:20", 3)]


def test_new_driver_near_gets_a_parallel_offer(core: ModuleType) -> None:
    world = world_with(core, {1: 100}, offers_at_once=2)
    world.request()
    world.run(at("00:03"))
    world.set_online(2, online=True, at=300)
    world.run(at("00:03"))
    assert offers(world) == [("00:00", 1), ("00:03", 2)]


def test_no_offer_beyond_the_parallel_limit(core: ModuleType) -> None:
    world = world_with(core, {1: 100})
    ride_id = world.request()
    world.run(at("00:03"))
    world.set_online(2, online=True, at=50)
    world.run(at("00:05"))
    world.timers["matching.wake", ride_id] = world.now  # also with an earlier wakeup
    world.run(at("00:19"))
    assert offers(world) == [("00:00", 1)]


def test_search_waits_for_the_last_open_offer(core: ModuleType) -> None:
    world = world_with(core, {1: 100, 2: 200}, offers_at_once=3)
    world.answers = {1: (world.refuse, 18)}
    world.request()
    world.run(at("00:19"))
    assert searches(world) == [("00:00", 1, 5000)], "one of two offers is still open: no new search"
    world.run(at("00:20"))
    assert searches(world)[1:] == [("00:20", 1, 5000), ("00:20", 2, 7500)]


def test_attempt_limit_starts_the_next_search(core: ModuleType) -> None:
    world = world_with(core, {1: 100, 2: 200, 3: 300}, max_attempts_per_search=2)
    world.request()
    world.run(at("01:00"))
    assert offers(world) == [("00:00", 1), ("00:20", 2), ("00:40", 3)]
    assert searches(world)[:3] == [("00:00", 1, 5000), ("00:20", 1, 5000), ("00:40", 2, 7500)]
    assert [offer.search for offer in world.offers_of(1)] == [1, 1, 2]


def test_given_up_ride_starts_a_new_round(core: ModuleType) -> None:
    world = world_with(core, {1: 100, 2: 200})
    world.answers = {1: (world.refuse, 1), 2: (world.accept, 4)}
    ride_id = world.request()
    world.later(60, world.give_up, 2)
    world.run(at("01:00"))
    assert world.lock_of(2) is None
    matching = world.matchings[ride_id]
    assert (matching.round, matching.search, matching.started_at) == (2, 2, at("01:00"))
    world.run(at("01:10"))
    world.set_online(3, online=True, at=300)
    world.run()
    assert history(world)[6:] == [
        ("01:00", "ride.reassigning", 2),
        ("01:00", "matching.retry", 2, 7_500, "01:30", "nobody_near"),
        ("01:10", "matching.candidate_found", 3, 3),
        ("01:30", "matching.driver_timeout", 3, 3),
        ("01:30", "matching.retry", 3, 10_000, "01:30", "all_asked"),
        ("01:30", "matching.retry", 4, 12_500, "02:00", "nobody_near"),
        *(
            (published_at, "matching.retry", 5 + n, 15_000, comes_at, "nobody_near")
            for n, (published_at, comes_at) in enumerate(pairwise(HALF_MINUTES))
        ),
        ("06:00", "ride.cancelled"),
        ("06:00", "matching.no_drivers_available"),
    ]
    assert is_idle(world)


def test_passenger_can_cancel_at_any_moment(core: ModuleType) -> None:
    for second in (*range(0, 46, 5), 1, 19, 21, 299):
        world = world_with(core, {1: 100, 2: 200, 3: 300}, offers_at_once=1 + second % 2)
        world.answers = {2: (world.refuse, 5)}
        ride_id = world.request()
        world.later(second, world.cancel, ride_id)
        world.run()
        assert world.rides[ride_id].status == "CANCELED"
        assert world.rides[ride_id].ended_at == START + timedelta(seconds=second)
        assert "ride.cancelled" in history(world)[-1], "no event follows"
        assert world.matchings[ride_id].phase == "ended"
        assert is_idle(world)


def test_driver_can_give_up_at_any_moment(core: ModuleType) -> None:
    for second in range(0, 40, 3):
        world = world_with(core, {1: 100, 2: 200, 3: 300}, offers_at_once=1 + second % 2)
        world.answers = {1: (world.refuse, 3), 2: (world.accept, 4), 3: (world.accept, 15)}
        ride_id = world.request()
        world.run(at("00:08"))
        assert world.rides[ride_id].driver == 2
        world.later(second, world.give_up, 2)
        world.run(at("02:00"))
        assert world.rides[ride_id].driver == 3
        assert world.rides[ride_id].round == 2
        assert world.locks.keys() == {3}


def test_driver_coming_online_wakes_a_waiting_search(core: ModuleType) -> None:
    world = world_with(core, {})
    ride_id = world.request()
    world.run(at("00:10"))
    assert (world.matchings[ride_id].search, world.matchings[ride_id].next_search_at) == (2, at("00:30"))
    world.set_online(1, online=True, at=7000)
    world.set_online(2, online=True, at=14000)
    world.run(at("00:29"))
    assert offers(world) == [("00:10", 1)], "only the driver within the next search's radius"


def test_repeated_event_does_not_shorten_a_wait(core: ModuleType) -> None:
    world = world_with(core, {})
    ride_id = world.request()
    world.deliver(again=True)
    before = world.matchings[ride_id]
    world.now = at("00:10")
    world.deliver()
    assert world.matchings[ride_id] == before
    assert searches(world) == [("00:00", 1, 5000)]


def test_search_woken_without_candidates_keeps_its_time(core: ModuleType) -> None:
    world = world_with(core, {1: 100})
    world.answers = {1: (world.refuse, 5)}
    ride_id = world.request()
    world.run(at("00:10"))
    before = world.matchings[ride_id]
    assert before.next_search_at == at("00:35")
    world.set_online(1, online=True)
    world.run(at("00:34"))
    assert world.matchings[ride_id] == before
    assert searches(world)[-1] == ("00:10", 3, 10_000)
    assert offers(world) == [("00:00", 1)]


def test_without_redis_the_search_repeats_soon(core: ModuleType) -> None:
    world = world_with(core, {1: 100})
    world.drivers[1].written = False
    world.lose_redis()
    world.request()
    world.later(7, setattr, world, "redis_up", True)
    world.run(at("00:10"))
    assert history(world) == [
        ("00:00", "ride.requested"),
        *(
            (f"00:{second:02}", "matching.retry", 1, 5000, f"00:{second + 2:02}", "index_away")
            for second in (0, 2, 4, 6)
        ),
        ("00:08", "matching.candidate_found", 1, 1),
    ]


def test_without_redis_known_drivers_are_asked_at_once(core: ModuleType) -> None:
    world = world_with(core, {1: 100})
    world.lose_redis()
    world.request()
    world.run(at("00:00"))
    assert offers(world) == [("00:00", 1)]


def test_no_search_if_operators_make_the_offers(core: ModuleType) -> None:
    world = world_with(core, {1: 100}, offers_at_once=0)
    first, second = world.request(), world.request()
    world.later(10, world.offer_by_hand, first, 1, timedelta(seconds=60))
    world.later(15, world.refuse, 1)
    world.run()
    assert history(world) == [
        ("00:00", "ride.requested"),
        ("00:10", "matching.candidate_found", 1, 1),
        ("00:15", "matching.driver_rejected", 1, 1),
        ("05:00", "ride.cancelled"),
        ("05:00", "matching.no_drivers_available"),
    ]
    assert (world.rides[first].status, world.rides[second].status) == ("CANCELED", "EXPIRED")
    assert world.searches == {}
    assert is_idle(world)


def test_operator_offer_counts_as_a_parallel_offer(core: ModuleType) -> None:
    world = world_with(core, {1: 100, 2: 9000})
    ride_id = world.request()
    world.offer_by_hand(ride_id, 2, timedelta(seconds=40))
    world.run(at("00:39"))
    assert offers(world) == [("00:00", 2)]
    world.run(at("00:40"))
    assert offers(world) == [("00:00", 2), ("00:40", 1)]


@pytest.mark.parametrize(
    ("comes_at", "expected"), [("04:50", "matching.timeout"), ("04:39", "matching.no_drivers_available")]
)
def test_end_event_depends_on_an_open_offer(comes_at: str, expected: str, core: ModuleType) -> None:
    world = world_with(core, {})
    ride_id = world.request()
    world.run(at(comes_at))
    world.set_online(1, online=True, at=100)
    world.run(at(comes_at))
    (offer,) = world.offers_of(ride_id)
    assert offer.expires_at == min(at(comes_at) + world.offer_ttl, at("05:00")), (
        "an offer ends with the search at the latest"
    )
    world.run()
    assert [line[:2] for line in history(world)[-2:]] == [("05:00", "ride.cancelled"), ("05:00", expected)]
    assert is_idle(world)


def test_candidates_locked_by_others_are_tried_again_soon(core: ModuleType) -> None:
    world = world_with(core, {1: 100})
    first = world.request()
    world.deliver(fault=Fault(dies_before=4))
    assert world.lock_of(1) == Lock(first, at("00:25")), "a dead dispatcher's lock"
    world.later(5, world.cancel, first)
    world.bus.clear()
    second = world.request()
    world.run(at("00:10"))
    assert history(world, second) == [
        ("00:00", "ride.requested"),
        *(
            (f"00:{second:02}", "matching.retry", 1, 5000, f"00:{second + 2:02}", "snatched")
            for second in (0, 2, 4)
        ),
        ("00:06", "matching.candidate_found", 1, 1),
    ]


def test_crash_at_any_effect_changes_nothing(core: ModuleType) -> None:
    for dies_before in range(1, 9):
        world = world_with(core, {1: 100, 2: 200})
        ride_id = world.request()
        world.deliver(fault=Fault(dies_before=dies_before))
        assert world.bus == [] or (world.offers, world.matchings) == ({}, {})
        world.run(at("00:00"))
        assert offers(world) == [("00:00", 1)]
        assert world.locks == {1: Lock(ride_id, at("00:25"))}


def test_lost_event_costs_two_seconds(core: ModuleType) -> None:
    world = world_with(core, {1: 100, 2: 200})
    ride_id = world.request()
    world.run(at("00:19"))
    world.now = at("00:20")
    world.fire(("rides.due", ride_id))
    assert [event.key for _, event in world.bus] == ["matching.driver_timeout"]
    world.bus.clear()
    world.run(at("00:30"))
    assert offers(world) == [("00:00", 1), ("00:22", 2)]


def test_repeated_refusal_and_timeout_ask_one_more_each(core: ModuleType) -> None:
    world = world_with(core, {1: 100, 2: 200, 3: 300, 4: 400})
    world.request()
    world.run(at("00:05"))
    world.refuse(1)
    for _ in range(3):
        world.deliver(again=True)
    assert offers(world) == [("00:00", 1), ("00:05", 2)]
    refused = world.bus.copy()
    world.run(at("00:25"))
    world.bus += refused
    world.run(at("00:30"))
    assert offers(world) == [("00:00", 1), ("00:05", 2), ("00:25", 3)]


def test_messages_of_an_earlier_round_change_nothing(core: ModuleType) -> None:
    world = world_with(core, {1: 100, 2: 200, 3: 300})
    world.answers = {1: (world.refuse, 3), 2: (world.accept, 4)}
    ride_id = world.request()
    late: list[Any] = []
    publish = world.publish

    def publish_twice(event: Any) -> None:
        before = len(world.bus)
        publish(event)
        late.extend(world.bus[before:])

    world.publish = publish_twice  # type: ignore[method-assign]
    world.run(at("00:10"))
    world.give_up(2)
    world.run(at("00:12"))
    assert offers(world)[2:] == [("00:10", 3)]
    before = world.matchings[ride_id], dict(world.timers), dict(world.offers), dict(world.locks)
    world.bus += [message for message in late if message[1].round == 1]
    world.run(at("00:12"))
    assert (world.matchings[ride_id], world.timers, world.offers, world.locks) == before


def test_ride_state_of_an_earlier_round_is_ignored(core: ModuleType) -> None:
    matching = core.Matching(ride_id=UUID(int=1), round=2, started_at=START, wake_at=at("05:00"))
    for state in ("open", "taken", "over"):
        earlier = core.RideState(state=state, round=1, since=START, deadline_at=START)
        assert core.step(matching, core.Recheck(earlier), at("01:00"), core.Rules()) == (matching, ())
