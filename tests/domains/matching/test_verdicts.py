"""Each verdict on a driver, as the timeline shows it."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.domains.rides.offers.service import make_offers
from tests.conftest import bearer
from tests.domains.matching.harness import RULES, MatchingHarness
from tests.servers import on_one_stack, until

pytestmark = on_one_stack


async def test_offered_and_next(harness: MatchingHarness) -> None:
    later, near = await harness.new_drivers(4, 1)
    ride_id = await harness.request_ride()
    assert await harness.verdicts(ride_id) == {near: "offered", later: "next"}
    search = await harness.last_search(ride_id)
    (offer,) = (await harness.town.rides.timeline(ride_id))["offers"]
    assert [(one["offer_id"], round(one["distance_meters"], -2)) for one in search["seen"]] == [
        (offer["offer_id"], 100),
        (None, 400),
    ]
    assert (offer["by"], offer["search"]) == ("search", 1)
    assert offer["pickup_distance_meters"] == search["seen"][0]["distance_meters"]


async def test_driving(harness: MatchingHarness) -> None:
    busy, free = await harness.new_drivers(1, 2)
    await harness.town.drive(busy)
    assert await harness.verdicts(await harness.request_ride()) == {busy: "driving", free: "offered"}


async def test_held_by_another_rides_offer(harness: MatchingHarness) -> None:
    held, free = await harness.new_drivers(1, 2)
    await harness.town.rides.offer(await harness.town.rides.request(), held)
    assert await harness.verdicts(await harness.request_ride()) == {held: "held", free: "offered"}


async def test_asked_now_by_this_ride(harness: MatchingHarness) -> None:
    harness.use_rules(replace(RULES, offers_at_once=2))
    first = await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    second = await harness.town.new_driver(steps=2)
    await harness.fire_timer(ride_id, woken=True)
    assert await harness.verdicts(ride_id) == {first: "asked_now", second: "offered"}


async def test_refused_before(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, first)
    assert await harness.verdicts(ride_id) == {first: "refused_before", second: "offered"}


async def test_refused_before_despite_a_later_operator_offer(harness: MatchingHarness) -> None:
    refused, wins = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, refused)
    await harness.town.rides.offer(ride_id, refused)
    await harness.accept(ride_id, wins)
    await harness.town.rides.give_up(ride_id, wins)
    await harness.advance(ride_id)
    assert await harness.verdicts(ride_id) == {refused: "refused_before", wins: "gave_it_up"}


async def test_silent_before(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.town.rides.let_lapse(ride_id)
    await harness.advance(ride_id)
    assert await harness.verdicts(ride_id) == {first: "silent_before", second: "offered"}


async def test_gave_it_up(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, first)
    await harness.town.rides.give_up(ride_id, first)
    await harness.advance(ride_id)
    assert await harness.verdicts(ride_id) == {first: "gave_it_up", second: "offered"}


async def test_own_ride(harness: MatchingHarness) -> None:
    own, other = await harness.new_drivers(1, 2)
    ride_id = await harness.town.rides.request(own)
    await harness.advance(ride_id)
    assert await harness.verdicts(ride_id) == {own: "own_ride", other: "offered"}


async def test_too_far_is_only_for_available_drivers(harness: MatchingHarness) -> None:
    free, busy = await harness.new_drivers(15, 12)
    out_of_reach = await harness.town.new_driver(steps=25)
    await harness.town.drive(busy)
    ride_id = await harness.request_ride()
    assert await harness.verdicts(ride_id) == {busy: "driving", free: "too_far"}
    assert out_of_reach not in await harness.verdicts(ride_id), "outside the largest radius"


async def test_stale_position(harness: MatchingHarness) -> None:
    old = await harness.town.new_driver(steps=1, at=timedelta(seconds=-45))
    fresh = await harness.town.new_driver(steps=2)
    harness.matcher.terms = replace(harness.matcher.terms, fresh=timedelta(seconds=30))
    assert await harness.verdicts(await harness.request_ride()) == {old: "stale", fresh: "offered"}


async def test_stale_position_without_redis(harness: MatchingHarness) -> None:
    old = await harness.town.new_driver(steps=1, at=timedelta(seconds=-45))
    harness.matcher.terms = replace(harness.matcher.terms, fresh=timedelta(seconds=30))
    async with harness.without_redis():
        ride_id = await harness.request_ride()
        assert await harness.verdicts(ride_id) == {old: "stale"}
        assert (await harness.last_search(ride_id))["source"] == "database"


async def test_may_not_drive(harness: MatchingHarness) -> None:
    suspended, free = await harness.new_drivers(1, 2)
    answer = await harness.town.api.put(
        f"/v1/drivers/{suspended}/approval",
        json={"approval": "suspended", "reason": "a test"},
        headers=bearer("operator"),
    )
    assert answer.status_code == 200, answer.text
    assert await harness.verdicts(await harness.request_ride()) == {
        suspended: "may_not_drive",
        free: "offered",
    }


async def test_locked_by_another_ride(harness: MatchingHarness) -> None:
    locked, free = await harness.new_drivers(1, 2)
    await harness.lock(locked, await harness.town.rides.request())
    assert await harness.verdicts(await harness.request_ride()) == {locked: "locked", free: "offered"}


async def test_snatched_by_a_faster_ride(harness: MatchingHarness) -> None:
    """An operator's offer commits between the search and its offer."""
    driver_id = await harness.town.new_driver(steps=1)
    faster, ride_id = [await harness.town.rides.request(uuid4()) for _ in range(2)]
    database = harness.town.parts.database
    async with database.transaction() as db:
        await make_offers(db, RideId(faster), [UserId(driver_id)], ttl=timedelta(minutes=1))
        step = asyncio.create_task(harness.advance(ride_id))
        await until(lambda: insert_waits(harness))
    await step
    assert await harness.verdicts(ride_id) == {driver_id: "snatched"}
    search = await harness.last_search(ride_id)
    assert (search["outcome"], search["next_at"] > search["at"]) == ("snatched", True)
    assert await harness.lock_holder(driver_id) is None


async def insert_waits(harness: MatchingHarness) -> bool:
    """Return True if an insert waits for another transaction."""
    async with harness.town.parts.database.connection() as db:
        return await db.fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND query LIKE '%INTO ride_offers%')"
        )
