"""Rides that run out when matching is not there, or when nobody is asked any more: told of rightly, once."""

from datetime import timedelta
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.rides import RideId, withdraw_offers
from catraca.domains.rides.search.service import SEARCH_GRACE, expire_ride
from tests.domains.matching.office import Office

ENDS = ("matching.timeout", "matching.no_drivers_available")


async def run_out(office: Office, ride_id: UUID) -> None:
    """As when every dispatcher's matching was away for longer than a ride may wait."""
    database = office.town.parts.database
    past = SEARCH_GRACE + timedelta(seconds=1)
    await database.run(
        lambda db: db.execute(
            "UPDATE rides SET deadline_at = clock_timestamp() - $2::interval WHERE id = $1", ride_id, past
        )
    )
    await database.run(lambda db: expire_ride(db, RideId(ride_id)))


async def ends(office: Office, ride_id: UUID) -> list[str]:
    return [message.key for message in await office.told(ride_id, *ENDS)]


async def test_a_ride_that_ran_out_before_it_was_heard_of_is_told_of_once(office: Office) -> None:
    ride_id = await office.town.rides.request()
    await run_out(office, ride_id)
    assert await office.town.rides.status(ride_id) == "EXPIRED"
    await office.carry(ride_id)
    await office.advance(ride_id)
    assert await ends(office, ride_id) == ["matching.no_drivers_available"]
    assert (await office.row(ride_id))["phase"] == "ended"


async def test_a_ride_that_ran_out_amid_its_search_is_told_of_once(office: Office) -> None:
    ride_id = await office.requested()
    await run_out(office, ride_id)
    assert await office.town.rides.status(ride_id) == "CANCELED"
    for _ in range(2):
        await office.advance(ride_id)
    assert await ends(office, ride_id) == ["matching.no_drivers_available"]
    assert await office.timer(ride_id) is None


async def test_a_driver_who_left_before_the_end_was_not_being_asked(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    assert await office.live(ride_id) == [driver_id]
    database = office.town.parts.database
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
    await office.fire(ride_id)
    assert await ends(office, ride_id) == ["matching.no_drivers_available"]
