"""Laws that must hold in the simulation at any moment, after any fault."""

from collections import Counter
from datetime import datetime, timedelta

from tests.domains.matching.simulation.rides import DECLINED, OVER, OVERTIME
from tests.domains.matching.simulation.world import World

# How long after an offer's end the search continues if its event is lost.
MAX_DELAY = timedelta(seconds=2)
ENDS = ("matching.timeout", "matching.no_drivers_available")


def check(world: World) -> None:
    for law in LAWS:
        law(world)


def driver_is_held_once(world: World) -> None:
    held = Counter(offer.driver for offer in world.offers.values() if offer.held)
    assert all(count == 1 for count in held.values()), f"two held offers: {held}"


def parallel_offers_are_limited(world: World) -> None:
    for ride_id in world.rides:
        found = [offer for offer in world.live(ride_id) if offer.search is not None]
        assert len(found) <= world.rules.offers_at_once, f"{len(found)} offers are open at once"


def no_driver_is_asked_again(world: World) -> None:
    for ride_id in world.rides:
        declined: set[int] = set()
        for offer in world.offers_of(ride_id):
            assert offer.search is None or offer.driver not in declined, f"{offer.driver} got two offers"
            if offer.response in (None, *DECLINED):
                declined.add(offer.driver)


def drivers_are_within_the_radius(world: World) -> None:
    rules = world.rules
    for offer in world.offers.values():
        if offer.search is not None:
            grown = rules.initial_radius_meters + (offer.search - 1) * rules.radius_increment_meters
            assert offer.radius == min(grown, rules.max_radius_meters)
            assert offer.distance is not None
            assert offer.distance <= offer.radius


def offers_per_search_are_limited(world: World) -> None:
    made = Counter(
        (offer.ride, offer.round, offer.search) for offer in world.offers.values() if offer.search is not None
    )
    assert all(count <= world.rules.max_attempts_per_search for count in made.values()), made
    for ride_id, matching in world.matchings.items():
        assert matching.offers == made[ride_id, matching.round, matching.search], "the count is wrong"


def offers_end_with_the_search(world: World) -> None:
    for offer in world.offers.values():
        ride = world.rides[offer.ride]
        if offer.round == ride.round:
            assert offer.at < offer.expires_at <= ride.deadline_at


def a_lock_outlives_its_offer(world: World) -> None:
    for offer in world.offers.values():
        is_live = offer.response is None and offer.expires_at > world.now
        if world.redis_true and is_live and offer.search is not None:
            lock = world.locks.get(offer.driver)
            assert lock is not None, f"{offer.driver} has no lock"
            assert lock.ride == offer.ride
            assert lock.until >= offer.expires_at


def a_round_ends_once(world: World) -> None:
    ends = Counter((event.ride, event.round) for event in world.published if event.key in ENDS)
    assert all(count == 1 for count in ends.values()), ends


def only_open_searches_have_a_timer(world: World) -> None:
    for ride_id, matching in world.matchings.items():
        searches = matching.phase == "searching"
        assert searches == (matching.wake_at is not None)
        assert searches or matching.next_search_at is None
        assert world.timers.get(("matching.due", ride_id)) == matching.wake_at
        assert matching.round <= world.rides[ride_id].round
        if matching.wake_at is not None:
            assert matching.next_search_at is None or matching.wake_at <= matching.next_search_at
            for offer in world.live(ride_id):  # the event of its end can be lost
                assert offer.search is None or matching.wake_at <= offer.expires_at + MAX_DELAY


LAWS = (
    driver_is_held_once,
    parallel_offers_are_limited,
    no_driver_is_asked_again,
    drivers_are_within_the_radius,
    offers_per_search_are_limited,
    offers_end_with_the_search,
    a_lock_outlives_its_offer,
    a_round_ends_once,
    only_open_searches_have_a_timer,
)


def check_rest(world: World, *, calm_since: datetime) -> None:
    """Check after the faults stopped and time passed: every ride has ended in time."""
    check(world)
    assert world.timers == {}
    for ride in world.rides.values():
        assert not ride.is_open, f"ride {ride.id} has not ended"
        matching = world.matchings.get(ride.id)
        is_known = matching is not None and matching.round == ride.round
        if ride.ended_at is not None and ride.status != "COMPLETED":
            # If matching never got an event of the round, the ride's own timer ends it.
            latest = ride.deadline_at if is_known else ride.deadline_at + OVERTIME
            assert ride.ended_at <= max(latest, calm_since), f"ride {ride.id} ended late"
            if world.bus_true and ride.ended_at > calm_since:
                assert ride.ended_by != "rides", f"matching never searched for ride {ride.id}"
        if matching is not None:
            assert matching.phase != "searching", f"the search of ride {ride.id} is still open"
    if world.bus_true and world.redis_true:
        for driver, lock in world.locks.items():
            is_over = world.rides[lock.ride].status in OVER
            assert not is_over or lock.until <= calm_since + world.search, f"{driver} stays locked"
