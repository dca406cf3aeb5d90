"""After a match or an end: the locks that stay, the locks that go, and the events."""

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
from tests.domains.matching.harness import RULES, MatchingHarness
from tests.servers import on_one_stack

pytestmark = on_one_stack

THREE_AT_ONCE = Rules(
    offers_at_once=3,
    initial_radius_meters=RULES.initial_radius_meters,
    max_radius_meters=RULES.max_radius_meters,
    radius_increment_meters=RULES.radius_increment_meters,
)


async def lock_lasts(harness: MatchingHarness, driver_id: UUID) -> timedelta:
    left = await harness.town.redis.command("PTTL", f"driver:{driver_id}:lock")
    assert isinstance(left, int)
    return timedelta(milliseconds=left)


async def matched(harness: MatchingHarness, **driver: float) -> tuple[UUID, UUID]:
    """Return a ride and its driver; all events are delivered."""
    driver_id = await harness.town.new_driver(**driver)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, driver_id)
    await harness.deliver_all(ride_id)
    return ride_id, driver_id


async def test_match_is_published_once_with_the_eta(harness: MatchingHarness) -> None:
    ride_id, driver_id = await matched(harness, steps=5)
    (accepted,) = await harness.messages(ride_id, "matching.driver_accepted")
    await harness.deliver(accepted, accepted)
    (sent,) = await harness.events(ride_id, "ride.matched")
    way = estimate_trip(Place(LAT + 5 * STEP, LNG), Place(LAT, LNG))
    assert (sent.driver_id, sent.round) == (driver_id, 1)
    assert (sent.eta_seconds, sent.pickup_distance_meters) == (way.duration_seconds, way.distance_meters)
    assert sent.eta_seconds > 0


async def test_match_without_a_position_has_no_eta(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, driver_id)
    await harness.town.go(driver_id, online=False)
    await harness.deliver_all(ride_id)
    (sent,) = await harness.events(ride_id, "ride.matched")
    assert (sent.driver_id, sent.eta_seconds, sent.pickup_distance_meters) == (driver_id, None, None)


async def test_match_time_counts_from_the_start_of_the_search(harness: MatchingHarness) -> None:
    ride_id, driver_id = await matched(harness, steps=1)
    ride = await harness.town.rides.read(ride_id)
    (sent,) = await harness.events(ride_id, "ride.matched")
    assert sent.started_at.isoformat() == ride["created_at"].replace("Z", "+00:00")
    assert sent.matched_at.isoformat() == ride["accepted_at"].replace("Z", "+00:00")
    other = await harness.town.new_driver(steps=2)
    await harness.town.rides.give_up(ride_id, driver_id)
    await harness.deliver_all(ride_id)
    await harness.accept(ride_id, other)
    await harness.deliver_all(ride_id)
    (given_up,) = await harness.events(ride_id, "ride.reassigning")
    again = (await harness.events(ride_id, "ride.matched"))[-1]
    assert (again.driver_id, again.round) == (other, 2)
    assert sent.matched_at < again.started_at <= given_up.timestamp, "the second search, not the first"
    assert again.started_at == (await harness.row(ride_id))["started_at"]


async def test_first_offer_time_counts_over_all_searches(harness: MatchingHarness) -> None:
    def seen() -> float:
        return next(one.value for one in FIRST_OFFER_SECONDS.collect()[0].samples if "_count" in one.name)

    ride_id, before = await harness.request_ride(), seen()
    drivers = await harness.new_drivers(1, 2)
    await harness.fire_timer(ride_id, woken=True)
    assert seen() == before + 1
    await harness.refuse(ride_id, drivers[0])
    assert await harness.asked_drivers(ride_id) == [drivers[1]]
    assert seen() == before + 1


async def test_match_is_not_published_after_the_driver_gave_up(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, first)
    await harness.town.rides.give_up(ride_id, first)
    await harness.deliver_all(ride_id)
    assert await harness.events(ride_id, "ride.matched") == []
    await harness.accept(ride_id, second)
    await harness.deliver_all(ride_id)
    assert [sent.driver_id for sent in await harness.events(ride_id, "ride.matched")] == [second]
    assert (await harness.lock_holder(first), await harness.lock_holder(second)) == (None, str(ride_id))


async def test_acceptance_of_an_earlier_round_is_not_published(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, first)
    await harness.town.rides.give_up(ride_id, first)
    await harness.deliver_all(ride_id, "ride.reassigning")
    await harness.accept(ride_id, second)
    earlier, later = await harness.messages(ride_id, "matching.driver_accepted")
    await harness.deliver(later, earlier)
    assert [sent.driver_id for sent in await harness.events(ride_id, "ride.matched")] == [second]
    assert (await harness.lock_holder(first), await harness.lock_holder(second)) == (None, str(ride_id))


async def test_ended_ride_keeps_no_driver_locked(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, driver_id)
    await harness.town.rides.drive_to("COMPLETED", ride_id, driver_id)
    completed = await harness.messages(ride_id, "ride.completed")
    await harness.deliver(*completed, *await harness.messages(ride_id, "matching.driver_accepted"))
    assert await harness.lock_holder(driver_id) is None
    assert await harness.events(ride_id, "ride.matched") == []


async def test_acceptance_extends_the_lock(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    assert timedelta(0) < await lock_lasts(harness, driver_id) <= harness.matcher.terms.offer_lease
    await harness.accept(ride_id, driver_id)
    await harness.deliver_all(ride_id)
    assert await harness.lock_holder(driver_id) == str(ride_id)
    assert harness.matcher.terms.offer_lease < await lock_lasts(harness, driver_id) <= RIDE_LEASE


@pytest.mark.parametrize("end", ["completed", "canceled", "given up"])
async def test_end_of_the_ride_releases_its_lock(harness: MatchingHarness, end: str) -> None:
    ride_id, driver_id = await matched(harness, steps=1)
    if end == "completed":
        await harness.town.rides.drive_to("COMPLETED", ride_id, driver_id)
    elif end == "canceled":
        await harness.town.rides.cancel(ride_id, harness.town.rides.operator)
    else:
        await harness.town.rides.give_up(ride_id, driver_id)
    await harness.deliver_all(ride_id)
    assert await harness.lock_holder(driver_id) is None


@pytest.mark.parametrize("end", ["refused", "lapsed", "canceled", "out of time"])
async def test_end_of_an_offer_releases_its_lock(harness: MatchingHarness, end: str) -> None:
    driver_id, passenger_id = await harness.town.new_driver(steps=1), uuid4()
    ride_id = await harness.town.rides.request(passenger_id)
    await harness.deliver_all(ride_id)
    assert await harness.lock_holder(driver_id) == str(ride_id)
    if end == "refused":
        await harness.town.rides.reject(ride_id, driver_id)
    elif end == "lapsed":
        await harness.town.rides.let_lapse(ride_id)
        await harness.town.rides.settle(ride_id)
    elif end == "canceled":
        await harness.town.rides.cancel(ride_id, bearer("passenger", passenger_id))
    else:
        await harness.pass_deadline(ride_id)
        await harness.fire_timer(ride_id)
    await harness.deliver_all(ride_id)
    assert await harness.lock_holder(driver_id) is None


@pytest.mark.parametrize("live", [True, False], ids=["open offer", "no open offer"])
async def test_end_event_shows_if_an_offer_was_open(harness: MatchingHarness, live: bool) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    if not live:
        await harness.refuse(ride_id, driver_id)
    # Offer and search end at the same time, like an offer cut to the deadline.
    await harness.town.rides.sql(
        "WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS at), offers AS ("
        "   UPDATE ride_offers SET expires_at = moment.at FROM moment WHERE ride_id = $1 AND held)"
        " UPDATE rides SET deadline_at = moment.at FROM moment WHERE id = $1",
        ride_id,
    )
    await harness.fire_timer(ride_id)
    ends = ("matching.timeout", "matching.no_drivers_available")
    await harness.deliver_all(ride_id, *ends)
    (sent,) = await harness.events(ride_id, *ends)
    kind, reason = (
        (MatchingTimeout, "nobody_accepted") if live else (NoDriversAvailable, "no_drivers_in_area")
    )
    assert (type(sent), sent.reason, sent.total_attempts) == (kind, reason, 1)
    assert (sent.timeout_drivers, sent.rejected_drivers) == (
        ((driver_id,), ()) if live else ((), (driver_id,))
    )
    assert await harness.town.rides.status(ride_id) == "CANCELED"
    assert await harness.lock_holder(driver_id) is None


async def test_locks_of_other_rides_stay(harness: MatchingHarness) -> None:
    driver_id, other_ride = await harness.town.new_driver(steps=1), uuid4()
    ride_id = await harness.request_ride()
    await harness.town.rides.reject(ride_id, driver_id)
    await harness.town.redis.command("DEL", f"driver:{driver_id}:lock")
    await harness.lock(driver_id, other_ride)
    await harness.deliver_all(ride_id)
    await harness.town.rides.cancel(ride_id, harness.town.rides.operator)
    await harness.deliver_all(ride_id)
    assert await harness.lock_holder(driver_id) == str(other_ride)


async def test_acceptance_releases_the_other_drivers(harness: MatchingHarness) -> None:
    harness.use_rules(THREE_AT_ONCE)
    drivers = await harness.new_drivers(1, 2, 3)
    ride_id = await harness.request_ride()
    assert await harness.asked_drivers(ride_id) == drivers
    await harness.accept(ride_id, drivers[1])
    await harness.deliver_all(ride_id)
    assert [await harness.lock_holder(one) for one in drivers] == [None, str(ride_id), None]
    lost = await harness.events(ride_id, "offer.canceled")
    assert {(one.driver_id, one.reason) for one in lost} == {
        (one, "accepted_by_another_driver") for one in (drivers[0], drivers[2])
    }
    assert len(await harness.events(ride_id, "ride.matched")) == 1
    next_ride = await harness.request_ride()
    assert await harness.asked_drivers(next_ride) == [drivers[0], drivers[2]], "other rides can offer to them"


async def test_match_is_published_without_redis(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=2)
    ride_id = await harness.request_ride()
    async with harness.without_redis():
        await harness.accept(ride_id, driver_id)
        await harness.deliver_all(ride_id)
        (sent,) = await harness.events(ride_id, "ride.matched")
        assert sent.eta_seconds == estimate_trip(Place(LAT + 2 * STEP, LNG), Place(LAT, LNG)).duration_seconds
        await harness.town.rides.drive_to("COMPLETED", ride_id, driver_id)
        await harness.deliver_all(ride_id)
    next_ride = await harness.request_ride()
    assert await harness.asked_drivers(next_ride) == [driver_id]
