"""Rides that end while matching is down or without an open offer: the end is published once."""

from datetime import timedelta
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides import RideId, withdraw_offers
from catraca.domains.rides.search.service import SEARCH_GRACE, expire_ride
from tests.domains.matching.harness import MatchingHarness

ENDS = ("matching.timeout", "matching.no_drivers_available")


async def run_out(harness: MatchingHarness, ride_id: UUID) -> None:
    """Let the ride's own timer end it, as if all dispatchers were down for longer than the search."""
    database = harness.town.parts.database
    past = SEARCH_GRACE + timedelta(seconds=1)
    await database.run(
        lambda db: db.execute(
            "UPDATE rides SET deadline_at = clock_timestamp() - $2::interval WHERE id = $1", ride_id, past
        )
    )
    await database.run(lambda db: expire_ride(db, RideId(ride_id)))


async def ends(harness: MatchingHarness, ride_id: UUID) -> list[str]:
    return [message.key for message in await harness.messages(ride_id, *ENDS)]


async def test_ride_expired_before_its_search_is_published_once(harness: MatchingHarness) -> None:
    ride_id = await harness.town.rides.request()
    await run_out(harness, ride_id)
    assert await harness.town.rides.status(ride_id) == "EXPIRED"
    await harness.deliver_all(ride_id)
    await harness.advance(ride_id)
    assert await ends(harness, ride_id) == ["matching.no_drivers_available"]
    assert (await harness.row(ride_id))["phase"] == "ended"


async def test_ride_expired_during_its_search_is_published_once(harness: MatchingHarness) -> None:
    ride_id = await harness.request_ride()
    await run_out(harness, ride_id)
    assert await harness.town.rides.status(ride_id) == "CANCELED"
    for _ in range(2):
        await harness.advance(ride_id)
    assert await ends(harness, ride_id) == ["matching.no_drivers_available"]
    assert await harness.timer_due_at(ride_id) is None


async def test_withdrawn_offer_does_not_count_as_open_at_the_end(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    assert await harness.asked_drivers(ride_id) == [driver_id]
    database = harness.town.parts.database
    await database.run(lambda db: withdraw_offers(db, UserId(driver_id)))
    # The offer would have lasted to the very end.
    await database.run(
        lambda db: db.execute(
            "WITH ending AS (UPDATE rides SET deadline_at = clock_timestamp() WHERE id = $1"
            "   RETURNING id, deadline_at)"
            " UPDATE ride_offers o SET expires_at = deadline_at FROM ending WHERE o.ride_id = ending.id",
            ride_id,
        )
    )
    await harness.fire_timer(ride_id)
    assert await ends(harness, ride_id) == ["matching.no_drivers_available"]
