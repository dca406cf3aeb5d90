"""Rides of a community: own drivers first, then neighbours and other drivers, as the tier allows."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from catraca.domains.matching.search.handlers import HANDLERS
from catraca.domains.matching.search.service import MATCHING_WAKE
from catraca.events import DriverLeftCommunity
from tests.domains.geofences.village import METERS_A_DEGREE, Village, square
from tests.domains.location.town import spot
from tests.domains.matching.harness import RULES, MatchingHarness, message_of
from tests.servers import on_one_stack

pytestmark = on_one_stack

# Metres to the north of the village's middle, where passengers are; its edge is at 1000.
INSIDE, NEXT_DOOR, OUTSIDE = 900, 1500, 1100


@pytest.fixture
async def village(harness: MatchingHarness) -> Village:
    """A community; the first search already reaches the neighbours."""
    harness.use_rules(replace(RULES, initial_radius_meters=2000))
    return await Village.create(harness.town)


async def with_neighbour(harness: MatchingHarness) -> Village:
    """The same with a neighbour community to the north, whose drivers get offers before other drivers."""
    here = await Village.create(harness.town)
    north = square(here.lat + NEXT_DOOR / METERS_A_DEGREE, here.lng, meters=200)
    neighbour = await here.add_community(north)
    # At a place in two fences, the smaller fence counts.
    here.community = await here.add_community(
        square(here.lat, here.lng, meters=990),
        neighbour_ids=(neighbour.id,),
        fallback=("neighbours", "open"),
    )
    return here


async def opened(village: Village) -> UUID:
    """Return a ride whose passenger confirmed other drivers; its search has not begun."""
    passenger_id = uuid4()
    return await village.confirm_ride(passenger_id, await village.request_token(passenger_id))


async def at_home(harness: MatchingHarness, village: Village, driver_id: UUID | None = None) -> UUID:
    """Return a ride for own drivers only, requested while an own driver was in the village."""
    own = driver_id or await village.add_driver()
    answer = await village.request(uuid4())
    assert (answer.status_code, answer.json()["ride"]["tier"]) == (201, "home"), answer.text
    if driver_id is None:
        await harness.town.go(own, online=False)
    return UUID(answer.json()["rideId"])


async def test_home_ride_is_offered_to_own_drivers_only(harness: MatchingHarness, village: Village) -> None:
    inside, other = (
        await village.add_driver(north_meters=INSIDE),
        await village.add_driver(north_meters=OUTSIDE),
    )
    based = await village.add_driver(north_meters=NEXT_DOOR, based=True)
    ride_id = await at_home(harness, village, inside)
    await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == [inside]
    assert await harness.verdicts(ride_id) == {inside: "offered", based: "next"}
    await harness.refuse(ride_id, inside)
    assert await harness.asked_drivers(ride_id) == [based], (
        "a driver based in the village belongs to it at any place"
    )
    await harness.refuse(ride_id, based)
    assert await harness.asked_drivers(ride_id) == []
    assert await harness.verdicts(ride_id) == {
        inside: "refused_before",
        other: "outside_fence",
        based: "refused_before",
    }


async def test_open_ride_goes_to_own_drivers_first(harness: MatchingHarness, village: Village) -> None:
    ride_id = await opened(village)
    far, near = (
        await village.add_driver(north_meters=NEXT_DOOR),
        await village.add_driver(north_meters=OUTSIDE),
    )
    based = await village.add_driver(north_meters=1800, based=True)
    await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == [based]
    assert await harness.verdicts(ride_id) == {based: "offered"}
    await harness.refuse(ride_id, based)
    assert await harness.asked_drivers(ride_id) == [near]
    assert await harness.verdicts(ride_id) == {near: "offered", far: "next", based: "refused_before"}
    await harness.refuse(ride_id, near)
    assert await harness.asked_drivers(ride_id) == [far]


async def test_neighbours_are_asked_second(harness: MatchingHarness, village: Village) -> None:
    village = await with_neighbour(harness)
    ride_id = await opened(village)
    nearest = await village.add_driver(north_meters=OUTSIDE)
    neighbour = await village.add_driver(north_meters=NEXT_DOOR)
    own = await village.add_driver(north_meters=1900, based=True)
    await harness.advance(ride_id)
    for driver_id in (own, neighbour, nearest):
        assert await harness.asked_drivers(ride_id) == [driver_id]
        await harness.refuse(ride_id, driver_id)
    assert await harness.asked_drivers(ride_id) == []


async def test_neighbour_ride_is_not_offered_to_others(harness: MatchingHarness, village: Village) -> None:
    village = await with_neighbour(harness)
    neighbour = await village.add_driver(north_meters=NEXT_DOOR)
    ride_id = await opened(village)
    nearest = await village.add_driver(north_meters=OUTSIDE)
    await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == [neighbour]
    await harness.refuse(ride_id, neighbour)
    assert await harness.asked_drivers(ride_id) == []
    assert await harness.verdicts(ride_id) == {nearest: "outside_fence", neighbour: "refused_before"}


async def drive_in(harness: MatchingHarness, village: Village, driver_id: UUID) -> None:
    """Send three precise positions inside the fence."""
    for north in (990, 980, 970):
        lat = village.lat + north / METERS_A_DEGREE
        answer = await harness.town.ping(driver_id, spot(lat=lat, lng=village.lng, accuracy_meters=5))
        assert answer["accepted"] == 1, answer
        await harness.town.patrol().check_all()


async def test_driver_entering_the_fence_wakes_a_search(harness: MatchingHarness, village: Village) -> None:
    ride_id = await at_home(harness, village)
    driver_id = await village.add_driver(north_meters=1005)
    await harness.advance(ride_id)
    assert await harness.verdicts(ride_id) == {driver_id: "outside_fence"}
    await drive_in(harness, village, driver_id)
    assert await harness.timer_due_at(ride_id, MATCHING_WAKE) is None
    await harness.deliver_all(driver_id, "location.driver.entered_community")
    assert await harness.timer_due_at(ride_id, MATCHING_WAKE) is not None
    await harness.fire_timer(ride_id, woken=True)
    assert await harness.asked_drivers(ride_id) == [driver_id]


async def test_driver_leaving_the_fence_keeps_the_offer(harness: MatchingHarness, village: Village) -> None:
    own = await village.add_driver(north_meters=INSIDE)
    offered = await at_home(harness, village, own)
    await harness.advance(offered)
    waits = await opened(village)
    await harness.advance(waits)
    left = DriverLeftCommunity(
        driver_id=own, community_id=village.community.id, lat=village.lat, lng=village.lng
    )
    message = message_of(left)
    assert [one.queue for one in HANDLERS if message.key in (one.keys or ())] == [
        "matching_availability_queue"
    ]
    await harness.deliver(message)
    assert await harness.asked_drivers(offered) == [own]
    assert await harness.timer_due_at(waits, MATCHING_WAKE) is None
