"""Steps of a search on real servers: whom they ask, and what they leave behind."""

from tests.domains.matching.office import Office


async def test_the_nearest_driver_is_locked_and_asked(office: Office) -> None:
    far, near = await office.town.new_driver(steps=3), await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    assert await office.live(ride_id) == [near]
    assert await office.holder(near) == str(ride_id)
    assert await office.holder(far) is None
    assert await office.town.rides.status(ride_id) == "OFFERED"


async def test_a_step_taken_twice_asks_nobody_twice(office: Office) -> None:
    near, _ = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    ride_id = await office.requested()
    for _ in range(3):
        await office.advance(ride_id)
    assert await office.live(ride_id) == [near]


async def test_who_refuses_is_followed_by_the_next_until_nobody_is_left(office: Office) -> None:
    drivers = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    ride_id = await office.requested()
    for driver_id in drivers:
        assert await office.live(ride_id) == [driver_id]
        await office.town.rides.reject(ride_id, driver_id)
        await office.advance(ride_id)
    assert await office.live(ride_id) == []
    assert await office.town.rides.status(ride_id) == "SEARCHING"
    row = await office.row(ride_id)
    # The second search, wider and at once, found nobody: the third waits.
    assert (row["search"], row["offers"]) == (3, 0)
    assert row["next_search_at"] is not None
    assert await office.timer(ride_id) == row["wake_at"] == row["next_search_at"]


async def test_at_the_deadline_the_ride_ends_in_the_same_moment_as_its_search(office: Office) -> None:
    ride_id = await office.requested()
    await office.past_deadline(ride_id)
    await office.fire(ride_id)
    assert await office.town.rides.status(ride_id) == "CANCELED"
    told = await office.town.rides.told(ride_id)
    assert told == ["ride.requested", "matching.retry", "ride.cancelled", "matching.no_drivers_available"]
    assert (await office.row(ride_id))["phase"] == "ended"
    assert await office.timer(ride_id) is None
