"""Why a driver was not asked: each reason occurs where it should, and is what the timeline tells."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.domains.rides.offers.service import make_offers
from tests.conftest import bearer
from tests.domains.matching.office import RULES, Office
from tests.servers import on_one_stack, until

pytestmark = on_one_stack


async def last_search(office: Office, ride_id: UUID) -> Any:
    return (await office.town.rides.timeline(ride_id))["searches"][-1]


async def verdicts(office: Office, ride_id: UUID) -> dict[UUID, str]:
    """What the last search found of each driver it saw, the nearest first."""
    search = await last_search(office, ride_id)
    told = {UUID(one["driver_id"]): one["verdict"] for one in search["seen"]}
    counts = {verdict: list(told.values()).count(verdict) for verdict in told.values()}
    assert search["verdicts"] == counts, "all of them are few enough to be told"
    return told


async def test_offered_and_next(office: Office) -> None:
    later, near = await office.town.new_driver(steps=4), await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    assert await verdicts(office, ride_id) == {near: "offered", later: "next"}
    search = await last_search(office, ride_id)
    (offer,) = (await office.town.rides.timeline(ride_id))["offers"]
    assert [(one["offer_id"], round(one["distance_meters"], -2)) for one in search["seen"]] == [
        (offer["offer_id"], 100),
        (None, 400),
    ]
    assert (offer["by"], offer["search"]) == ("search", 1)
    assert offer["pickup_distance_meters"] == search["seen"][0]["distance_meters"]


async def test_driving(office: Office) -> None:
    busy, free = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    await office.town.drive(busy)
    assert await verdicts(office, await office.requested()) == {busy: "driving", free: "offered"}


async def test_held_by_another_rides_offer(office: Office) -> None:
    asked, free = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    await office.town.rides.offer(await office.town.rides.request(), asked)
    assert await verdicts(office, await office.requested()) == {asked: "held", free: "offered"}


async def test_asked_now_by_this_ride(office: Office) -> None:
    office.be_by(replace(RULES, offers_at_once=2))
    first = await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    second = await office.town.new_driver(steps=2)
    await office.fire(ride_id, woken=True)
    assert await verdicts(office, ride_id) == {first: "asked_now", second: "offered"}


async def test_refused_before(office: Office) -> None:
    first, second = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    ride_id = await office.requested()
    await office.refused(ride_id, first)
    assert await verdicts(office, ride_id) == {first: "refused_before", second: "offered"}


async def test_refused_before_whatever_an_operator_tried_since(office: Office) -> None:
    refused, wins = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    ride_id = await office.requested()
    await office.refused(ride_id, refused)
    await office.town.rides.offer(ride_id, refused)
    await office.taken(ride_id, wins)
    await office.town.rides.give_up(ride_id, wins)
    await office.advance(ride_id)
    assert await verdicts(office, ride_id) == {refused: "refused_before", wins: "gave_it_up"}


async def test_silent_before(office: Office) -> None:
    first, second = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    ride_id = await office.requested()
    await office.town.rides.let_lapse(ride_id)
    await office.advance(ride_id)
    assert await verdicts(office, ride_id) == {first: "silent_before", second: "offered"}


async def test_gave_it_up(office: Office) -> None:
    first, second = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    ride_id = await office.requested()
    await office.taken(ride_id, first)
    await office.town.rides.give_up(ride_id, first)
    await office.advance(ride_id)
    assert await verdicts(office, ride_id) == {first: "gave_it_up", second: "offered"}


async def test_own_ride(office: Office) -> None:
    own, other = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    ride_id = await office.town.rides.request(own)
    await office.advance(ride_id)
    assert await verdicts(office, ride_id) == {own: "own_ride", other: "offered"}


async def test_too_far_is_only_who_could_be_asked_else(office: Office) -> None:
    free, busy = await office.town.new_driver(steps=15), await office.town.new_driver(steps=12)
    out_of_reach = await office.town.new_driver(steps=25)
    await office.town.drive(busy)
    ride_id = await office.requested()
    assert await verdicts(office, ride_id) == {busy: "driving", free: "too_far"}
    assert out_of_reach not in await verdicts(office, ride_id), "no search will ever reach so far"


async def test_stale_position(office: Office) -> None:
    old = await office.town.new_driver(steps=1, at=timedelta(seconds=-45))
    fresh = await office.town.new_driver(steps=2)
    office.matcher.terms = replace(office.matcher.terms, fresh=timedelta(seconds=30))
    assert await verdicts(office, await office.requested()) == {old: "stale", fresh: "offered"}


async def test_stale_position_while_the_map_is_away(office: Office) -> None:
    old = await office.town.new_driver(steps=1, at=timedelta(seconds=-45))
    office.matcher.terms = replace(office.matcher.terms, fresh=timedelta(seconds=30))
    async with office.without_redis():
        ride_id = await office.requested()
        assert await verdicts(office, ride_id) == {old: "stale"}
        assert (await last_search(office, ride_id))["source"] == "database"


async def test_may_not_drive(office: Office) -> None:
    suspended, free = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    answer = await office.town.api.put(
        f"/v1/drivers/{suspended}/approval",
        json={"approval": "suspended", "reason": "a test"},
        headers=bearer("operator"),
    )
    assert answer.status_code == 200, answer.text
    assert await verdicts(office, await office.requested()) == {suspended: "may_not_drive", free: "offered"}


async def test_locked_for_a_ride_that_is_about_to_ask(office: Office) -> None:
    locked, free = await office.town.new_driver(steps=1), await office.town.new_driver(steps=2)
    await office.lock(locked, await office.town.rides.request())
    assert await verdicts(office, await office.requested()) == {locked: "locked", free: "offered"}


async def test_snatched_by_a_ride_that_was_faster(office: Office) -> None:
    """An operator's offer that commits between our look and our own offer."""
    driver_id = await office.town.new_driver(steps=1)
    faster, ride_id = [await office.town.rides.request(uuid4()) for _ in range(2)]
    database = office.town.parts.database
    async with database.transaction() as db:
        await make_offers(db, RideId(faster), [UserId(driver_id)], ttl=timedelta(minutes=1))
        ours = asyncio.create_task(office.advance(ride_id))
        await until(lambda: someone_waits(office))
    await ours
    assert await verdicts(office, ride_id) == {driver_id: "snatched"}
    search = await last_search(office, ride_id)
    assert (search["outcome"], search["next_at"] > search["at"]) == ("snatched", True)
    assert await office.holder(driver_id) is None


async def someone_waits(office: Office) -> bool:
    """Whether an insert waits for another's to commit."""
    async with office.town.parts.database.connection() as db:
        return await db.fetchval(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock' AND query LIKE '%INTO ride_offers%')"
        )
