"""What follows an acceptance or an end: whose lock stays, whose goes, and what the passenger hears."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from catraca.domains.matching import Rules
from catraca.domains.matching.outcome.service import RIDE_LEASE
from catraca.domains.matching.search.service import FIRST_OFFER_SECONDS
from catraca.events import MatchingTimeout, NoDriversAvailable
from catraca.platform.geo import Place, estimate_trip
from tests.conftest import bearer
from tests.domains.location.town import LAT, LNG, STEP
from tests.domains.matching.office import RULES, Office
from tests.servers import on_one_stack

pytestmark = on_one_stack

THREE_AT_ONCE = Rules(
    offers_at_once=3,
    initial_radius_meters=RULES.initial_radius_meters,
    max_radius_meters=RULES.max_radius_meters,
    radius_increment_meters=RULES.radius_increment_meters,
)


async def lock_lasts(office: Office, driver_id: UUID) -> timedelta:
    left = await office.town.redis.command("PTTL", f"driver:{driver_id}:lock")
    assert isinstance(left, int)
    return timedelta(milliseconds=left)


async def matched(office: Office, **driver: float) -> tuple[UUID, UUID]:
    """A ride with its driver, and everybody has heard of it."""
    driver_id = await office.town.new_driver(**driver)
    ride_id = await office.requested()
    await office.taken(ride_id, driver_id)
    await office.carry(ride_id)
    return ride_id, driver_id


async def test_the_match_is_told_once_with_how_long_the_driver_will_be(office: Office) -> None:
    ride_id, driver_id = await matched(office, steps=5)
    (accepted,) = await office.told(ride_id, "matching.driver_accepted")
    await office.deliver(accepted, accepted)
    (told,) = await office.news(ride_id, "ride.matched")
    way = estimate_trip(Place(LAT + 5 * STEP, LNG), Place(LAT, LNG))
    assert (told.driver_id, told.round) == (driver_id, 1)
    assert (told.eta_seconds, told.pickup_distance_meters) == (way.duration_seconds, way.distance_meters)
    assert told.eta_seconds > 0


async def test_where_nobody_knows_where_the_driver_is_no_time_is_promised(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    await office.taken(ride_id, driver_id)
    await office.town.go(driver_id, online=False)
    await office.carry(ride_id)
    (told,) = await office.news(ride_id, "ride.matched")
    assert (told.driver_id, told.eta_seconds, told.pickup_distance_meters) == (driver_id, None, None)


async def test_time_to_match_counts_from_when_a_driver_was_looked_for(office: Office) -> None:
    ride_id, driver_id = await matched(office, steps=1)
    ride = await office.town.rides.read(ride_id)
    (told,) = await office.news(ride_id, "ride.matched")
    assert told.started_at.isoformat() == ride["created_at"].replace("Z", "+00:00")
    assert told.matched_at.isoformat() == ride["accepted_at"].replace("Z", "+00:00")
    other = await office.town.new_driver(steps=2)
    await office.town.rides.give_up(ride_id, driver_id)
    await office.carry(ride_id)
    await office.taken(ride_id, other)
    await office.carry(ride_id)
    (given_up,) = await office.news(ride_id, "ride.reassigning")
    again = (await office.news(ride_id, "ride.matched"))[-1]
    assert (again.driver_id, again.round) == (other, 2)
    assert told.matched_at < again.started_at <= given_up.timestamp, "the second search, not the first"
    assert again.started_at == (await office.row(ride_id))["started_at"]


async def test_the_first_offer_counts_however_many_searches_it_took(office: Office) -> None:
    def seen() -> float:
        return next(one.value for one in FIRST_OFFER_SECONDS.collect()[0].samples if "_count" in one.name)

    ride_id, before = await office.requested(), seen()
    drivers = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    await office.fire(ride_id, woken=True)
    assert seen() == before + 1
    await office.refused(ride_id, drivers[0])
    assert await office.live(ride_id) == [drivers[1]]
    assert seen() == before + 1


async def test_a_driver_who_gave_up_before_it_was_heard_of_is_not_on_the_way(office: Office) -> None:
    first, second = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    ride_id = await office.requested()
    await office.taken(ride_id, first)
    await office.town.rides.give_up(ride_id, first)
    await office.carry(ride_id)
    assert await office.news(ride_id, "ride.matched") == []
    await office.taken(ride_id, second)
    await office.carry(ride_id)
    assert [told.driver_id for told in await office.news(ride_id, "ride.matched")] == [second]
    assert (await office.holder(first), await office.holder(second)) == (None, str(ride_id))


async def test_an_acceptance_heard_of_only_after_the_next_drivers_is_not_told(office: Office) -> None:
    first, second = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    ride_id = await office.requested()
    await office.taken(ride_id, first)
    await office.town.rides.give_up(ride_id, first)
    await office.carry(ride_id, "ride.reassigning")
    await office.taken(ride_id, second)
    earlier, later = await office.told(ride_id, "matching.driver_accepted")
    await office.deliver(later, earlier)
    assert [told.driver_id for told in await office.news(ride_id, "ride.matched")] == [second]
    assert (await office.holder(first), await office.holder(second)) == (None, str(ride_id))


async def test_a_ride_over_before_it_was_heard_of_keeps_nobody(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    await office.taken(ride_id, driver_id)
    await office.town.rides.drive_to("COMPLETED", ride_id, driver_id)
    completed = await office.told(ride_id, "ride.completed")
    await office.deliver(*completed, *await office.told(ride_id, "matching.driver_accepted"))
    assert await office.holder(driver_id) is None
    assert await office.news(ride_id, "ride.matched") == []


async def test_with_acceptance_the_lock_becomes_the_rides(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    assert timedelta(0) < await lock_lasts(office, driver_id) <= office.matcher.terms.offer_lease
    await office.taken(ride_id, driver_id)
    await office.carry(ride_id)
    assert await office.holder(driver_id) == str(ride_id)
    assert office.matcher.terms.offer_lease < await lock_lasts(office, driver_id) <= RIDE_LEASE


@pytest.mark.parametrize("end", ["completed", "canceled", "given up"])
async def test_the_rides_lock_goes_with_the_ride(office: Office, end: str) -> None:
    ride_id, driver_id = await matched(office, steps=1)
    if end == "completed":
        await office.town.rides.drive_to("COMPLETED", ride_id, driver_id)
    elif end == "canceled":
        await office.town.rides.cancel(ride_id, office.town.rides.operator)
    else:
        await office.town.rides.give_up(ride_id, driver_id)
    await office.carry(ride_id)
    assert await office.holder(driver_id) is None


@pytest.mark.parametrize("end", ["refused", "lapsed", "canceled", "out of time"])
async def test_an_offers_lock_goes_with_the_offer(office: Office, end: str) -> None:
    driver_id, passenger_id = await office.town.new_driver(steps=1), uuid4()
    ride_id = await office.town.rides.request(passenger_id)
    await office.carry(ride_id)
    assert await office.holder(driver_id) == str(ride_id)
    if end == "refused":
        await office.town.rides.reject(ride_id, driver_id)
    elif end == "lapsed":
        await office.town.rides.let_lapse(ride_id)
        await office.town.rides.settle(ride_id)
    elif end == "canceled":
        await office.town.rides.cancel(ride_id, bearer("passenger", passenger_id))
    else:
        await office.past_deadline(ride_id)
        await office.fire(ride_id)
    await office.carry(ride_id)
    assert await office.holder(driver_id) is None


@pytest.mark.parametrize("asked", [True, False], ids=["somebody", "nobody"])
async def test_the_end_says_whether_somebody_was_being_asked_until_then(office: Office, asked: bool) -> None:
    driver_id = await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    if not asked:
        await office.refused(ride_id, driver_id)
    # Both at one moment, as it is when the offer would have outlived the search.
    await office.town.rides.sql(
        "WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at), offers AS ("
        "   UPDATE ride_offers SET expires_at = moment.at FROM moment WHERE ride_id = $1 AND held)"
        " UPDATE rides SET deadline_at = moment.at FROM moment WHERE id = $1",
        ride_id,
    )
    await office.fire(ride_id)
    ends = ("matching.timeout", "matching.no_drivers_available")
    await office.carry(ride_id, *ends)
    (told,) = await office.news(ride_id, *ends)
    kind, reason = (
        (MatchingTimeout, "nobody_accepted") if asked else (NoDriversAvailable, "no_drivers_in_area")
    )
    assert (type(told), told.reason, told.total_attempts) == (kind, reason, 1)
    assert (told.timeout_drivers, told.rejected_drivers) == (
        ((driver_id,), ()) if asked else ((), (driver_id,))
    )
    assert await office.town.rides.status(ride_id) == "CANCELED"
    assert await office.holder(driver_id) is None


async def test_no_end_lets_go_of_what_another_ride_holds(office: Office) -> None:
    driver_id, other_ride = await office.town.new_driver(steps=1), uuid4()
    ride_id = await office.requested()
    await office.town.rides.reject(ride_id, driver_id)
    await office.town.redis.command("DEL", f"driver:{driver_id}:lock")
    await office.lock(driver_id, other_ride)
    await office.carry(ride_id)
    await office.town.rides.cancel(ride_id, office.town.rides.operator)
    await office.carry(ride_id)
    assert await office.holder(driver_id) == str(other_ride)


async def test_of_several_asked_at_once_one_has_the_ride_and_the_others_are_let_go(office: Office) -> None:
    office.be_by(THREE_AT_ONCE)
    drivers = [await office.town.new_driver(steps=steps) for steps in (1, 2, 3)]
    ride_id = await office.requested()
    assert await office.live(ride_id) == drivers
    await office.taken(ride_id, drivers[1])
    await office.carry(ride_id)
    assert [await office.holder(one) for one in drivers] == [None, str(ride_id), None]
    lost = await office.news(ride_id, "offer.canceled")
    assert {(one.driver_id, one.reason) for one in lost} == {
        (one, "accepted_by_another_driver") for one in (drivers[0], drivers[2])
    }
    assert len(await office.news(ride_id, "ride.matched")) == 1
    next_ride = await office.requested()
    assert await office.live(next_ride) == [drivers[0], drivers[2]], "and may be asked by others"


async def test_while_redis_is_away_the_match_is_told_all_the_same(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=2)
    ride_id = await office.requested()
    async with office.without_redis():
        await office.taken(ride_id, driver_id)
        await office.carry(ride_id)
        (told,) = await office.news(ride_id, "ride.matched")
        assert told.eta_seconds == estimate_trip(Place(LAT + 2 * STEP, LNG), Place(LAT, LNG)).duration_seconds
        await office.town.rides.drive_to("COMPLETED", ride_id, driver_id)
        await office.carry(ride_id)
    next_ride = await office.requested()
    assert await office.live(next_ride) == [driver_id]
