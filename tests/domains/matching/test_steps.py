"""Steps of a search on real servers: offers, rows and timers."""

from tests.domains.matching.harness import MatchingHarness


async def test_nearest_driver_is_locked_and_gets_the_offer(harness: MatchingHarness) -> None:
    far, near = await harness.new_drivers(3, 1)
    ride_id = await harness.request_ride()
    assert await harness.asked_drivers(ride_id) == [near]
    assert await harness.lock_holder(near) == str(ride_id)
    assert await harness.lock_holder(far) is None
    assert await harness.town.rides.status(ride_id) == "OFFERED"


async def test_repeated_steps_make_no_second_offer(harness: MatchingHarness) -> None:
    near, _ = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    for _ in range(3):
        await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == [near]


async def test_each_refusal_leads_to_the_next_driver(harness: MatchingHarness) -> None:
    drivers = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    for driver_id in drivers:
        assert await harness.asked_drivers(ride_id) == [driver_id]
        await harness.town.rides.reject(ride_id, driver_id)
        await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == []
    assert await harness.town.rides.status(ride_id) == "SEARCHING"
    row = await harness.row(ride_id)
    # The second search ran at once and found no driver: the third waits.
    assert (row["search"], row["offers"]) == (3, 0)
    assert row["next_search_at"] is not None
    assert await harness.timer_due_at(ride_id) == row["wake_at"] == row["next_search_at"]


async def test_deadline_ends_ride_and_search_together(harness: MatchingHarness) -> None:
    ride_id = await harness.request_ride()
    await harness.pass_deadline(ride_id)
    await harness.fire_timer(ride_id)
    assert await harness.town.rides.status(ride_id) == "CANCELED"
    keys = await harness.town.rides.event_keys(ride_id)
    assert keys == ["ride.requested", "matching.retry", "ride.cancelled", "matching.no_drivers_available"]
    assert (await harness.row(ride_id))["phase"] == "ended"
    assert await harness.timer_due_at(ride_id) is None
