"""An available driver wakes the longest waiting searches that reach the driver."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

from catraca.domains.matching.search.service import MATCHING_WAKE, MAX_WOKEN
from catraca.events import DriverIdle, DriverOnline
from catraca.platform.clock import now
from tests.conftest import bearer
from tests.domains.location.town import LAT, LNG, STEP, spot
from tests.domains.matching.harness import RULES, MatchingHarness, message_of
from tests.servers import on_one_stack

pytestmark = on_one_stack

# The first and the largest radius, in steps of about a hundred metres.
FIRST, FURTHEST = 10, 20


async def waiting(harness: MatchingHarness, *, steps: float = 0) -> UUID:
    """Return a ride `steps` to the north whose search waits."""
    way = {"pickup_lat": LAT + steps * STEP, "pickup_lon": LNG}
    ride_id = await harness.town.rides.request(way=way)
    await harness.deliver_all(ride_id)
    assert (await harness.row(ride_id))["next_search_at"] is not None
    return ride_id


async def woken(harness: MatchingHarness, *ride_ids: UUID) -> list[UUID]:
    """Return the rides with a wake timer."""
    return [one for one in ride_ids if await harness.timer_due_at(one, MATCHING_WAKE) is not None]


async def come_online(harness: MatchingHarness, *, steps: float = 0) -> UUID:
    """Let a driver come online, and deliver the event."""
    driver_id = await harness.town.new_driver(steps=steps)
    await harness.deliver_all(driver_id)
    return driver_id


async def test_driver_coming_online_is_asked_at_once(harness: MatchingHarness) -> None:
    ride_id = await waiting(harness)
    planned = (await harness.row(ride_id))["next_search_at"]
    driver_id = await come_online(harness, steps=1)
    due_at = await harness.timer_due_at(ride_id, MATCHING_WAKE)
    assert due_at is not None
    assert due_at < planned
    await harness.fire_timer(ride_id, woken=True)
    assert await harness.asked_drivers(ride_id) == [driver_id]
    assert (await harness.row(ride_id))["next_search_at"] is None


async def test_longest_waiting_searches_are_woken_first(harness: MatchingHarness) -> None:
    rides = [await waiting(harness) for _ in range(MAX_WOKEN + 2)]
    await come_online(harness)
    assert await woken(harness, *rides) == rides[:MAX_WOKEN]


async def test_only_searches_that_reach_the_driver_are_woken(harness: MatchingHarness) -> None:
    """Also if the others have waited longer."""
    far_off = [await waiting(harness, steps=FURTHEST - 2) for _ in range(MAX_WOKEN)]
    near = await waiting(harness, steps=1)
    await come_online(harness)
    assert await woken(harness, *far_off, near) == [near]


async def test_wider_searches_are_woken_from_farther_away(harness: MatchingHarness) -> None:
    ride_id = await waiting(harness)
    radius = RULES.radius_of((await harness.row(ride_id))["search"])
    assert radius == FIRST * 100 + 500
    for steps, is_woken in ((radius / 100 + 1, False), (radius / 100 - 1, True)):
        await come_online(harness, steps=steps)
        assert await woken(harness, ride_id) == [ride_id] * is_woken


async def test_rides_with_an_offer_or_a_driver_are_not_woken(harness: MatchingHarness) -> None:
    drivers = await harness.new_drivers(1, 2)
    offered, taken = await harness.request_ride(), await harness.request_ride()
    assert [*await harness.asked_drivers(offered), *await harness.asked_drivers(taken)] == drivers
    await harness.accept(taken, drivers[1])
    await harness.deliver_all(taken)
    await come_online(harness)
    assert await woken(harness, offered, taken) == []


async def test_wakeup_without_candidates_changes_nothing(harness: MatchingHarness) -> None:
    ride_id = await waiting(harness)
    before, messages = await harness.row(ride_id), await harness.messages(ride_id)
    await harness.fire_timer(ride_id, woken=True)
    assert await harness.row(ride_id) == before
    assert await harness.timer_due_at(ride_id) == before["wake_at"]
    assert len(await harness.messages(ride_id)) == len(messages)


async def test_ended_search_ignores_a_wakeup(harness: MatchingHarness) -> None:
    ride_id = await waiting(harness)
    await come_online(harness)
    await harness.town.rides.cancel(ride_id, harness.town.rides.operator)
    await harness.deliver_all(ride_id)
    await harness.fire_timer(ride_id, woken=True)
    assert await harness.asked_drivers(ride_id) == []
    assert (await harness.row(ride_id))["phase"] == "ended"


async def test_online_driver_without_position_wakes_near_the_last(
    harness: MatchingHarness,
) -> None:
    ride_id = await waiting(harness)
    driver_id = await harness.town.rides.new_driver()
    await harness.town.go(driver_id, online=True)
    await harness.deliver_all(driver_id)
    assert await woken(harness, ride_id) == [], "the driver has no position"
    await harness.town.ping(driver_id, spot(1))
    await harness.deliver(message_of(DriverOnline(driver_id=driver_id)))
    assert await woken(harness, ride_id) == [ride_id]


async def test_idle_driver_wakes_searches_again(harness: MatchingHarness) -> None:
    ride_id = await waiting(harness)
    driver_id = await harness.town.new_driver(steps=1)
    idle = DriverIdle(driver_id=driver_id, free_since=now() - timedelta(minutes=5))
    await harness.deliver(message_of(idle))
    assert await woken(harness, ride_id) == [ride_id]


async def test_refusal_wakes_other_searches(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    refused = await harness.request_ride()
    other = await waiting(harness)
    await harness.refuse(refused, driver_id)
    assert (await harness.row(refused))["next_search_at"] is not None, "its search waits too"
    assert await woken(harness, refused, other) == [other]
    assert len(await harness.searches(refused)) == 3, "and makes no further search"


async def test_given_up_ride_wakes_other_searches(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    given_up = await harness.request_ride()
    await harness.accept(given_up, driver_id)
    other = await waiting(harness)
    await harness.town.rides.give_up(given_up, driver_id)
    await harness.deliver_all(given_up)
    assert await woken(harness, given_up, other) == [other]


async def test_completed_ride_wakes_other_searches(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    completed = await harness.request_ride()
    await harness.accept(completed, driver_id)
    other = await waiting(harness)
    await harness.town.rides.drive_to("COMPLETED", completed, driver_id)
    await harness.deliver_all(completed)
    assert await woken(harness, other) == [other]


async def test_canceled_ride_wakes_other_searches(harness: MatchingHarness) -> None:
    passenger_id = uuid4()
    await harness.town.new_driver(steps=1)
    canceled = await harness.town.rides.request(passenger_id)
    await harness.deliver_all(canceled)
    other = await waiting(harness)
    await harness.town.rides.cancel(canceled, bearer("passenger", passenger_id))
    await harness.deliver_all(canceled)
    assert await woken(harness, other) == [other]


async def test_driver_who_lost_an_offer_wakes_other_searches(harness: MatchingHarness) -> None:
    harness.use_rules(replace(RULES, offers_at_once=2))
    drivers = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    assert await harness.asked_drivers(ride_id) == drivers
    other = await waiting(harness)
    await harness.accept(ride_id, drivers[0])
    await harness.deliver_all(ride_id)
    assert await woken(harness, other) == [other]
    await harness.fire_timer(other, woken=True)
    assert await harness.asked_drivers(other) == [drivers[1]]
