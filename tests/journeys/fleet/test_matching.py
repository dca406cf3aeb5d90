"""From the request of a ride to its driver or its end: the RFC's scenarios, and failures in between.

Real processes, called over HTTP, with short timeouts. The embedded stack has the PostgreSQL bus, the servers
RabbitMQ.
"""

from datetime import datetime

import pytest

from tests.journeys.fleet.people import Quarter, event
from tests.journeys.fleet.processes import LOCK_SECONDS, OFFER_SECONDS, MatchingFleet

pytestmark = pytest.mark.xdist_group("rides")

# A driver who comes online just before the next search is due would prove nothing.
TRIES = 5


@pytest.fixture
def quarter(here: MatchingFleet) -> Quarter:
    return Quarter(here)


def radius_meters(search: int) -> int:
    return min(5000 + (search - 1) * 2500, 15_000)


async def test_scenario_1_the_driver_accepts(here: MatchingFleet, quarter: Quarter) -> None:
    far, near = await quarter.drivers(9, 3)
    ride = await quarter.request()
    await ride.until_asked(near)
    assert (await here.holder(near), await here.holder(far)) == (ride.ride_id, None)
    assert await here.lock_seconds(near) > OFFER_SECONDS
    await ride.accept(near)
    matched = await ride.until_published("ride.matched")
    assert matched["eta_seconds"] > 0
    assert await ride.events() == [
        event("ride.requested"),
        event("matching.candidate_found", driver_id=near, attempt=1),
        event("ride.accepted", driver_id=near),
        event("matching.driver_accepted", driver_id=near, attempt=1),
        event("ride.matched", driver_id=near),
    ]
    assert await ride.states() == ["REQUESTED", "OFFERED", "ACCEPTED"]
    assert await here.holder(near) == ride.ride_id, "the lock is the ride's now"
    assert await here.lock_seconds(near) > LOCK_SECONDS
    await ride.drive(near)
    await here.until_free(near)


async def test_scenario_2_the_driver_refuses(here: MatchingFleet, quarter: Quarter) -> None:
    first, second, _third = await quarter.drivers(1, 2, 3)
    ride = await quarter.request()
    await ride.until_asked(first)
    await ride.reject(first)
    await ride.until_asked(second)
    await here.until_free(first)
    assert await here.holder(second) == ride.ride_id
    await ride.accept(second)
    await ride.until_published("ride.matched")
    assert await ride.events() == [
        event("ride.requested"),
        event("matching.candidate_found", driver_id=first, attempt=1),
        event("matching.driver_rejected", driver_id=first, attempt=1),
        event("matching.candidate_found", driver_id=second, attempt=2, previous_rejections=[first]),
        event("ride.accepted", driver_id=second),
        event("matching.driver_accepted", driver_id=second, attempt=2),
        event("ride.matched", driver_id=second),
    ]
    assert await ride.states() == ["REQUESTED", "OFFERED", "SEARCHING", "OFFERED", "ACCEPTED"]
    assert (await here.holder(first), await here.holder(second)) == (None, ride.ride_id)


async def test_scenario_3_the_driver_does_not_answer(here: MatchingFleet, quarter: Quarter) -> None:
    first, second = await quarter.drivers(1, 2)
    ride = await quarter.request()
    await ride.until_asked(first)
    await ride.until_asked(second)
    assert (await ride.try_to_accept(first)).status_code == 410
    await here.until_free(first)
    assert await here.holder(second) == ride.ride_id
    await ride.accept(second)
    await ride.until_published("ride.matched")
    assert await ride.events() == [
        event("ride.requested"),
        event("matching.candidate_found", driver_id=first, attempt=1),
        event("matching.driver_timeout", driver_id=first, attempt=1, ttl_expired=False),
        event("matching.candidate_found", driver_id=second, attempt=2, previous_timeout=[first]),
        event("ride.accepted", driver_id=second),
        event("matching.driver_accepted", driver_id=second, attempt=2),
        event("ride.matched", driver_id=second),
    ]
    assert await ride.states() == ["REQUESTED", "OFFERED", "SEARCHING", "OFFERED", "ACCEPTED"]
    assert (await here.holder(first), await here.holder(second)) == (None, ride.ride_id)


async def test_scenario_4_no_driver_in_time(here: MatchingFleet, quarter: Quarter) -> None:
    first, second = await quarter.drivers(1, 2)
    ride = await quarter.request(hastily=True)
    await ride.until_asked(first)
    await ride.reject(first)
    await ride.until_asked(second)
    await ride.until_published("matching.no_drivers_available")
    events = await ride.events()
    # The number of searches depends on time; each must have a wider radius than the last.
    retries = sum(key == "matching.retry" for key, _ in events)
    found = (await ride.timeline())["searches"]
    assert [one["search"] for one in found] == [1, 1, *range(2, len(found))]
    searches = found[-1]["search"]
    assert searches >= 3
    assert events == [
        event("ride.requested"),
        event("matching.candidate_found", driver_id=first, attempt=1),
        event("matching.driver_rejected", driver_id=first, attempt=1),
        event("matching.candidate_found", driver_id=second, attempt=2, previous_rejections=[first]),
        event("matching.driver_timeout", driver_id=second, attempt=2, ttl_expired=False),
        event("matching.retry", search=2, radius_meters=radius_meters(2), reason="all_asked"),
        *(
            event("matching.retry", search=search, radius_meters=radius_meters(search), reason="nobody_near")
            for search in range(3, 2 + retries)
        ),
        event("ride.cancelled", cancelled_by="system", reason="no_drivers_available"),
        event(
            "matching.no_drivers_available",
            total_attempts=2,
            searches=searches,
            rejected_drivers=[first],
            timeout_drivers=[second],
            search_radius_km=radius_meters(searches) / 1000,
            reason="no_drivers_in_area",
        ),
    ]
    assert await ride.states() == ["REQUESTED", "OFFERED", "SEARCHING", "OFFERED", "SEARCHING", "CANCELED"]
    assert (await ride.timeline())["steps"][-1]["actor"] == "system"
    await here.until_free(first, second)
    assert (await ride.try_to_accept(second)).status_code == 410


async def test_a_driver_going_online_wakes_a_waiting_search(here: MatchingFleet, quarter: Quarter) -> None:
    for _ in range(TRIES):
        ride = await quarter.request()
        planned = await ride.until_published("matching.retry")
        driver_id = await quarter.driver(1)
        found = await ride.until_published("matching.candidate_found")
        await ride.accept(driver_id)
        await ride.until_published("ride.matched")
        if datetime.fromisoformat(found["timestamp"]) < datetime.fromisoformat(planned["retry_at"]):
            break
    else:
        pytest.fail("every time, the driver was found only by the search that was to come anyway")
    assert await ride.events() == [
        event("ride.requested"),
        event("matching.retry", search=2, radius_meters=radius_meters(2), reason="nobody_near"),
        event("matching.candidate_found", driver_id=driver_id, attempt=1),
        event("ride.accepted", driver_id=driver_id),
        event("matching.driver_accepted", driver_id=driver_id, attempt=1),
        event("ride.matched", driver_id=driver_id),
    ]
    assert await ride.states() == ["REQUESTED", "SEARCHING", "OFFERED", "ACCEPTED"]


async def test_an_offer_ends_when_its_driver_goes_offline(here: MatchingFleet, quarter: Quarter) -> None:
    first, second = await quarter.drivers(1, 2)
    ride = await quarter.request()
    await ride.until_asked(first)
    await quarter.leaves(first)
    await ride.until_asked(second)
    await here.until_free(first)
    assert (await ride.try_to_accept(first)).status_code == 410
    await ride.accept(second)
    await ride.until_published("ride.matched")
    assert await ride.events() == [
        event("ride.requested"),
        event("matching.candidate_found", driver_id=first, attempt=1),
        event(
            "matching.driver_timeout",
            driver_id=first,
            attempt=1,
            ttl_expired=False,
            reason="driver_offline",
        ),
        event("matching.candidate_found", driver_id=second, attempt=2, previous_timeout=[first]),
        event("ride.accepted", driver_id=second),
        event("matching.driver_accepted", driver_id=second, attempt=2),
        event("ride.matched", driver_id=second),
    ]


async def test_a_ride_given_up_is_offered_to_another_driver(here: MatchingFleet, quarter: Quarter) -> None:
    first, second = await quarter.drivers(1, 2)
    ride = await quarter.request()
    deadline_at = (await ride.timeline())["deadline_at"]
    await ride.until_asked(first)
    await ride.accept(first)
    await ride.until_published("ride.matched")
    given_up = await ride.cancel("vehicle_problem", driver_id=first)
    assert given_up["status"] == "SEARCHING"
    await ride.until_asked(second)
    await here.until_free(first)
    assert await here.holder(second) == ride.ride_id
    assert (await ride.timeline())["deadline_at"] > deadline_at, "there is as much time as at first"
    await ride.accept(second)
    await ride.until_published("ride.matched", times=2)
    assert await ride.events() == [
        event("ride.requested"),
        event("matching.candidate_found", driver_id=first, attempt=1),
        event("ride.accepted", driver_id=first),
        event("matching.driver_accepted", driver_id=first, attempt=1),
        event("ride.matched", driver_id=first),
        event("ride.reassigning", round=2, previous_driver_id=first, reason="vehicle_problem"),
        event("matching.candidate_found", round=2, driver_id=second, attempt=2),
        event("ride.accepted", round=2, driver_id=second),
        event("matching.driver_accepted", round=2, driver_id=second, attempt=2),
        event("ride.matched", round=2, driver_id=second),
    ]
    assert await ride.states() == ["REQUESTED", "OFFERED", "ACCEPTED", "SEARCHING", "OFFERED", "ACCEPTED"]
    await ride.drive(second)
    await here.until_free(first, second)


async def test_a_canceled_ride_cancels_its_offer(here: MatchingFleet, quarter: Quarter) -> None:
    (driver_id,) = await quarter.drivers(1)
    ride = await quarter.request()
    await ride.until_asked(driver_id)
    await ride.cancel("changed_plans")
    assert (await ride.try_to_accept(driver_id)).status_code == 400
    await here.until_free(driver_id)
    assert await ride.events() == [
        event("ride.requested"),
        event("matching.candidate_found", driver_id=driver_id, attempt=1),
        event("ride.cancelled", cancelled_by="passenger", reason="changed_plans"),
        event("offer.canceled", driver_id=driver_id, attempt=1, reason="ride_canceled"),
    ]
    assert await ride.states() == ["REQUESTED", "OFFERED", "CANCELED"]
    other = await quarter.request()
    await other.until_asked(driver_id)


async def test_drivers_are_found_while_redis_is_down(here: MatchingFleet, quarter: Quarter) -> None:
    (first,) = await quarter.drivers(1)
    here.redis.kill()
    ride = await quarter.request()
    await ride.until_asked(first)
    await ride.reject(first)
    await ride.until_published("matching.retry")
    second = await quarter.driver(2)
    await ride.until_asked(second)
    assert {search["source"] for search in (await ride.timeline())["searches"]} == {"database"}
    await here.redis.start()
    await here.until_redis_is_back()
    await ride.accept(second)
    await ride.until_published("ride.matched")
    events = await ride.events()
    waits = sum(key == "matching.retry" for key, _ in events)
    assert events == [
        event("ride.requested"),
        event("matching.candidate_found", driver_id=first, attempt=1),
        event("matching.driver_rejected", driver_id=first, attempt=1),
        *[event("matching.retry", search=1, radius_meters=radius_meters(1), reason="index_away")] * waits,
        event("matching.candidate_found", driver_id=second, attempt=2, previous_rejections=[first]),
        event("ride.accepted", driver_id=second),
        event("matching.driver_accepted", driver_id=second, attempt=2),
        event("ride.matched", driver_id=second),
    ]
    assert await here.holder(second) == ride.ride_id, "from now on it is locked, as if nothing had been"
    await ride.drive(second)
    await here.until_free(second)
    later = await quarter.request()
    await later.until_asked(first)
    assert (await later.timeline())["searches"][-1]["source"] == "redis"
    assert await here.holder(first) == later.ride_id
