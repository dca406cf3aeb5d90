"""Who comes free wakes those who wait within reach, the longest waiting first, and nobody else."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

from catraca.domains.matching.search.service import MATCHING_WAKE, MAX_WOKEN
from catraca.events import DriverIdle, DriverOnline
from catraca.platform.clock import now
from tests.conftest import bearer
from tests.domains.location.town import LAT, LNG, STEP, spot
from tests.domains.matching.office import RULES, Office, message_of
from tests.servers import on_one_stack

pytestmark = on_one_stack

# In steps of about a hundred metres: how far the first search looks, and the furthest.
FIRST, FURTHEST = 10, 20


async def waiting(office: Office, *, steps: float = 0) -> UUID:
    """A ride so far to the north for which nobody was found."""
    way = {"pickup_lat": LAT + steps * STEP, "pickup_lon": LNG}
    ride_id = await office.town.rides.request(way=way)
    await office.carry(ride_id)
    assert (await office.row(ride_id))["next_search_at"] is not None
    return ride_id


async def woken(office: Office, *ride_ids: UUID) -> list[UUID]:
    """Which of these will look at once."""
    return [one for one in ride_ids if await office.timer(one, MATCHING_WAKE) is not None]


async def come_online(office: Office, *, steps: float = 0) -> UUID:
    """Somebody begins to work, and it is heard of."""
    driver_id = await office.town.new_driver(steps=steps)
    await office.carry(driver_id)
    return driver_id


async def test_a_driver_who_comes_online_is_asked_at_once(office: Office) -> None:
    ride_id = await waiting(office)
    planned = (await office.row(ride_id))["next_search_at"]
    driver_id = await come_online(office, steps=1)
    due_at = await office.timer(ride_id, MATCHING_WAKE)
    assert due_at is not None
    assert due_at < planned
    await office.fire(ride_id, woken=True)
    assert await office.live(ride_id) == [driver_id]
    assert (await office.row(ride_id))["next_search_at"] is None


async def test_those_who_have_waited_longest_are_woken_and_only_a_few(office: Office) -> None:
    rides = [await waiting(office) for _ in range(MAX_WOKEN + 2)]
    await come_online(office)
    assert await woken(office, *rides) == rides[:MAX_WOKEN]


async def test_only_searches_that_reach_the_driver_are_woken(office: Office) -> None:
    """However long those have waited who would look in vain."""
    far_off = [await waiting(office, steps=FURTHEST - 2) for _ in range(MAX_WOKEN)]
    near = await waiting(office, steps=1)
    await come_online(office)
    assert await woken(office, *far_off, near) == [near]


async def test_the_further_a_search_looks_the_further_away_it_hears(office: Office) -> None:
    ride_id = await waiting(office)
    looks_to = RULES.radius_of((await office.row(ride_id))["search"])
    assert looks_to == FIRST * 100 + 500
    for steps, hears in ((looks_to / 100 + 1, False), (looks_to / 100 - 1, True)):
        await come_online(office, steps=steps)
        assert await woken(office, ride_id) == [ride_id] * hears


async def test_who_is_being_asked_or_has_a_driver_is_not_woken(office: Office) -> None:
    drivers = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    asking, taken = await office.requested(), await office.requested()
    assert [*await office.live(asking), *await office.live(taken)] == drivers
    await office.taken(taken, drivers[1])
    await office.carry(taken)
    await come_online(office)
    assert await woken(office, asking, taken) == []


async def test_a_look_in_vain_changes_nothing(office: Office) -> None:
    ride_id = await waiting(office)
    before, told = await office.row(ride_id), await office.told(ride_id)
    await office.fire(ride_id, woken=True)
    assert await office.row(ride_id) == before
    assert await office.timer(ride_id) == before["wake_at"]
    assert len(await office.told(ride_id)) == len(told)


async def test_a_search_woken_after_its_end_asks_nobody(office: Office) -> None:
    ride_id = await waiting(office)
    await come_online(office)
    await office.town.rides.cancel(ride_id, office.town.rides.operator)
    await office.carry(ride_id)
    await office.fire(ride_id, woken=True)
    assert await office.live(ride_id) == []
    assert (await office.row(ride_id))["phase"] == "ended"


async def test_who_comes_online_without_saying_where_wakes_those_around_the_last_place(
    office: Office,
) -> None:
    ride_id = await waiting(office)
    driver_id = await office.town.rides.new_driver()
    await office.town.go(driver_id, online=True)
    await office.carry(driver_id)
    assert await woken(office, ride_id) == [], "nobody knows where the driver is"
    await office.town.ping(driver_id, spot(1))
    await office.deliver(message_of(DriverOnline(driver_id=driver_id)))
    assert await woken(office, ride_id) == [ride_id]


async def test_a_driver_nobody_wants_for_long_wakes_them_once_more(office: Office) -> None:
    ride_id = await waiting(office)
    driver_id = await office.town.new_driver(steps=1)
    idle = DriverIdle(driver_id=driver_id, free_since=now() - timedelta(minutes=5))
    await office.deliver(message_of(idle))
    assert await woken(office, ride_id) == [ride_id]


async def test_who_refuses_one_ride_may_want_another(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    refused = await office.requested()
    other = await waiting(office)
    await office.refused(refused, driver_id)
    assert (await office.row(refused))["next_search_at"] is not None, "it waits as well"
    assert await woken(office, refused, other) == [other]
    assert len(await office.searches(refused)) == 3, "and is not searched for again in vain"


async def test_who_gives_up_one_ride_may_want_another(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    given_up = await office.requested()
    await office.taken(given_up, driver_id)
    other = await waiting(office)
    await office.town.rides.give_up(given_up, driver_id)
    await office.carry(given_up)
    assert await woken(office, given_up, other) == [other]


async def test_who_has_done_one_ride_may_want_another(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    done = await office.requested()
    await office.taken(done, driver_id)
    other = await waiting(office)
    await office.town.rides.drive_to("COMPLETED", done, driver_id)
    await office.carry(done)
    assert await woken(office, other) == [other]


async def test_who_loses_an_offer_with_its_ride_may_want_another(office: Office) -> None:
    passenger_id = uuid4()
    await office.town.new_driver(steps=1)
    canceled = await office.town.rides.request(passenger_id)
    await office.carry(canceled)
    other = await waiting(office)
    await office.town.rides.cancel(canceled, bearer("passenger", passenger_id))
    await office.carry(canceled)
    assert await woken(office, other) == [other]


async def test_who_loses_an_offer_to_another_driver_may_want_another_ride(office: Office) -> None:
    office.be_by(replace(RULES, offers_at_once=2))
    drivers = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    ride_id = await office.requested()
    assert await office.live(ride_id) == drivers
    other = await waiting(office)
    await office.taken(ride_id, drivers[0])
    await office.carry(ride_id)
    assert await woken(office, other) == [other]
    await office.fire(other, woken=True)
    assert await office.live(other) == [drivers[1]]
