"""The offers of a ride are numbered without gaps, also if a driver gets another offer meanwhile."""

import asyncio
from datetime import timedelta

from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.domains.rides.offers.service import make_offers
from catraca.events import CandidateFound
from tests.domains.rides.desk import Desk
from tests.servers import until

TTL = timedelta(seconds=20)
WAITING = (
    "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO ride_offers%'"
)


async def test_driver_lost_to_another_ride_leaves_no_number_gap(desk: Desk) -> None:
    one, other = await desk.request(), await desk.request()
    snatched, left = [UserId(await desk.new_driver()) for _ in range(2)]

    async def is_waiting() -> bool:
        return bool(await desk.sql(WAITING))

    async with desk.database.transaction() as db:
        await make_offers(db, RideId(one), [snatched], ttl=TTL)
        offering = asyncio.create_task(
            desk.database.run(lambda db: make_offers(db, RideId(other), [snatched, left], ttl=TTL))
        )
        await until(is_waiting)
    made = await offering
    assert made.skipped == {snatched: "busy"}
    assert [(offer.driver_id, offer.attempt) for offer in made.offers] == [(left, 1)]
    assert [offer["attempt"] for offer in (await desk.timeline(other))["offers"]] == [1]
    found = [event for event in await desk.events(other) if isinstance(event, CandidateFound)]
    assert [event.attempt for event in found] == [1]
