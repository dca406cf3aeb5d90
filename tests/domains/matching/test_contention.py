"""Rides that want one driver at one moment: one asks, the others go on to the next. Redis only hurries."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from catraca.domains.people import UserId
from catraca.domains.rides import RideId
from catraca.domains.rides.offers.service import make_offers
from tests.conftest import bearer
from tests.domains.matching.office import RULES, Office
from tests.domains.rides.at_once import waiting_for_locks
from tests.servers import until

with_and_without_redis = pytest.mark.parametrize("away", [False, True], ids=["with redis", "without redis"])


async def new_rides(office: Office, count: int) -> list[UUID]:
    """Rides nobody has looked for yet."""
    return [await office.town.rides.request() for _ in range(count)]


async def verdicts(office: Office, ride_id: UUID) -> list[str]:
    """What became of each driver that the last search saw, the nearest first."""
    rows = await office.town.rides.sql(
        "SELECT one->>'verdict' AS verdict FROM (SELECT seen FROM matching_searches WHERE ride_id = $1"
        " ORDER BY id DESC LIMIT 1) AS last CROSS JOIN LATERAL jsonb_array_elements(last.seen) AS one",
        ride_id,
    )
    return [row["verdict"] for row in rows]


@with_and_without_redis
async def test_searches_side_by_side_never_ask_one_driver_twice(office: Office, away: bool) -> None:
    drivers = [await office.town.new_driver(steps=steps) for steps in range(1, 5)]
    side_by_side = await new_rides(office, len(drivers))
    async with AsyncExitStack() as meanwhile:
        if away:
            await meanwhile.enter_async_context(office.without_redis())
        await asyncio.gather(*map(office.advance, side_by_side))
        # Whoever found all of them locked tries again: by then the others have committed.
        for ride_id in side_by_side:
            if not await office.live(ride_id):
                await office.fire(ride_id, woken=True)
    asked = [await office.live(ride_id) for ride_id in side_by_side]
    assert all(len(one) == 1 for one in asked)
    assert sorted(driver_id for one in asked for driver_id in one) == sorted(drivers)


async def test_whoever_is_being_asked_by_another_ride_is_passed_over_without_a_wait(office: Office) -> None:
    near, next_one = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    first, second = await new_rides(office, 2)
    async with office.town.parts.database.transaction() as db:
        await office.matcher.advance_search(db, first)
        await office.advance(second)  # while the first has not committed
        assert await verdicts(office, second) == ["locked", "offered"]
    assert (await office.live(first), await office.live(second)) == ([near], [next_one])
    assert await office.holder(near) == str(first)


async def test_without_redis_the_index_decides_after_a_wait(office: Office) -> None:
    near, next_one = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    first, second = await new_rides(office, 2)
    async with office.without_redis():
        async with office.town.parts.database.transaction() as db:
            await office.matcher.advance_search(db, first)
            other = asyncio.create_task(office.advance(second))
            await until(lambda: waiting_for_locks(office.town.rides))
        await other
        assert await verdicts(office, second) == ["snatched", "offered"]
    assert (await office.live(first), await office.live(second)) == ([near], [next_one])


async def test_without_redis_a_ride_takes_over_from_one_that_failed(office: Office) -> None:
    near = await office.town.new_driver(steps=1)
    first, second = await new_rides(office, 2)
    async with office.without_redis():
        with pytest.raises(ZeroDivisionError):
            async with office.town.parts.database.transaction() as db:
                await office.matcher.advance_search(db, first)
                other = asyncio.create_task(office.advance(second))
                await until(lambda: waiting_for_locks(office.town.rides))
                raise ZeroDivisionError
        await other
    assert (await office.live(first), await office.live(second)) == ([], [near])


async def test_where_an_operator_is_faster_the_lock_goes_and_the_next_one_is_asked(office: Office) -> None:
    near, next_one = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    by_hand, searched = await new_rides(office, 2)
    async with office.town.parts.database.transaction() as db:
        await make_offers(db, RideId(by_hand), [UserId(near)], ttl=timedelta(seconds=20))
        search = asyncio.create_task(office.advance(searched))
        await until(lambda: waiting_for_locks(office.town.rides))
    await search
    assert await verdicts(office, searched) == ["snatched", "offered"]
    assert (await office.live(by_hand), await office.live(searched)) == ([near], [next_one])
    assert (await office.holder(near), await office.holder(next_one)) == (None, str(searched))


async def test_where_another_ride_is_faster_the_search_is_tried_again_soon(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    await office.lock(driver_id, (await new_rides(office, 1))[0])
    ride_id = await office.requested()
    (told,) = await office.news(ride_id, "matching.retry")
    assert (told.reason, told.search) == ("snatched", 1)
    row = await office.row(ride_id)
    assert (row["search"], row["next_search_at"]) == (1, told.retry_at)
    assert await verdicts(office, ride_id) == ["locked"]


async def test_a_step_that_failed_leaves_a_lock_that_its_own_ride_takes_again(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    (ride_id,) = await new_rides(office, 1)
    with pytest.raises(ZeroDivisionError):
        async with office.town.parts.database.transaction() as db:
            await office.matcher.advance_search(db, ride_id)
            raise ZeroDivisionError
    assert (await office.live(ride_id), await office.holder(driver_id)) == ([], str(ride_id))
    await office.advance(ride_id)
    assert await office.live(ride_id) == [driver_id]


async def called_off(office: Office, driver_id: UUID) -> UUID:
    passenger_id = uuid4()
    ride_id = await office.town.rides.request(passenger_id)
    await office.town.rides.cancel(ride_id, bearer("passenger", passenger_id))
    return ride_id


async def taken_by_another(office: Office, driver_id: UUID) -> UUID:
    return (await office.town.rides.accepted())[0]


async def given_up(office: Office, driver_id: UUID) -> UUID:
    ride_id = await office.town.rides.request()
    await office.town.rides.offer(ride_id, driver_id)
    await office.town.rides.accept(ride_id, driver_id)
    await office.town.rides.give_up(ride_id, driver_id)
    return ride_id


@pytest.mark.parametrize("ended", [called_off, taken_by_another, given_up])
async def test_a_lock_left_over_by_a_ride_that_cannot_have_the_driver_keeps_nobody(
    office: Office, ended: Callable[[Office, UUID], Awaitable[UUID]]
) -> None:
    driver_id = await office.town.new_driver(steps=1)
    await office.lock(driver_id, await ended(office, driver_id))
    ride_id = await office.requested()
    assert await office.live(ride_id) == [driver_id]
    assert await office.holder(driver_id) == str(ride_id)


@pytest.mark.parametrize("holder", ["open", "unknown"])
async def test_the_lock_of_anybody_else_keeps_the_driver(office: Office, holder: str) -> None:
    """Even where PostgreSQL knows of no offer: it may be about to be made, or by another program."""
    driver_id = await office.town.new_driver(steps=1)
    other = (await new_rides(office, 1))[0] if holder == "open" else uuid4()
    await office.lock(driver_id, other)
    ride_id = await office.requested()
    assert await office.live(ride_id) == []
    assert await office.holder(driver_id) == str(other)


async def test_several_at_once_are_the_nearest_and_who_refuses_is_replaced(office: Office) -> None:
    office.be_by(replace(RULES, offers_at_once=2, max_attempts_per_search=4))
    drivers = [await office.town.new_driver(steps=steps) for steps in range(1, 6)]
    ride_id = await office.requested()
    assert await office.live(ride_id) == drivers[:2]
    await office.advance(ride_id)
    assert await office.live(ride_id) == drivers[:2]
    await office.refused(ride_id, drivers[0])
    assert await office.live(ride_id) == [drivers[1], drivers[2]]
    await office.refused(ride_id, drivers[1])
    assert await office.live(ride_id) == [drivers[2], drivers[3]]
    await office.refused(ride_id, drivers[2])
    assert await office.live(ride_id) == [drivers[3]], "this search has asked as many as it may"
    await office.refused(ride_id, drivers[3])
    assert await office.live(ride_id) == [drivers[4]], "the next search asks further"
    assert [await office.holder(one) for one in drivers] == [None] * 4 + [str(ride_id)]


async def test_several_at_once_for_two_rides_are_different_drivers(office: Office) -> None:
    office.be_by(replace(RULES, offers_at_once=2))
    drivers = [await office.town.new_driver(steps=steps) for steps in range(1, 5)]
    two = await new_rides(office, 2)
    await asyncio.gather(*map(office.advance, two))
    asked = [await office.live(ride_id) for ride_id in two]
    assert sorted(one for live in asked for one in live) == sorted(drivers)
    assert [len(live) for live in asked] == [2, 2]


async def test_passengers_are_not_asked_to_drive_themselves(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    ride_id = await office.town.rides.request(driver_id)
    await office.advance(ride_id)
    assert await office.live(ride_id) == []
    assert await verdicts(office, ride_id) == ["own_ride"]


async def test_without_redis_drivers_are_found_in_postgresql(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    async with office.without_redis():
        ride_id = await office.requested()
        assert await office.live(ride_id) == [driver_id]
        await office.refused(ride_id, driver_id)
        assert [look["source"] for look in await office.searches(ride_id)] == ["database", "database"]
        assert (await office.news(ride_id, "matching.retry"))[-1].reason == "index_away"


async def test_without_redis_nobody_near_is_no_answer(office: Office) -> None:
    async with office.without_redis():
        ride_id = await office.requested()
        for _ in range(3):
            await office.town.rides.sql(
                "UPDATE matchings SET next_search_at = clock_timestamp() WHERE ride_id = $1", ride_id
            )
            await office.fire(ride_id)
        told = await office.news(ride_id, "matching.retry")
        assert {(one.reason, one.search) for one in told} == {("index_away", 1)}
    driver_id = await office.town.new_driver(steps=1)
    await office.carry(driver_id)
    await office.fire(ride_id, woken=True)
    assert await office.live(ride_id) == [driver_id]
    assert await office.holder(driver_id) == str(ride_id)
