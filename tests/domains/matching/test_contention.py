"""Rides that compete for a driver: one ride gets the driver, the others search on."""

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
from tests.domains.matching.harness import RULES, MatchingHarness
from tests.domains.rides.attempts import waiting_for_locks
from tests.servers import until

with_and_without_redis = pytest.mark.parametrize("away", [False, True], ids=["with redis", "without redis"])


async def new_rides(harness: MatchingHarness, count: int) -> list[UUID]:
    """Return rides whose search has not begun."""
    return [await harness.town.rides.request() for _ in range(count)]


@with_and_without_redis
async def test_concurrent_searches_offer_to_different_drivers(harness: MatchingHarness, away: bool) -> None:
    drivers = await harness.new_drivers(*range(1, 5))
    side_by_side = await new_rides(harness, len(drivers))
    async with AsyncExitStack() as meanwhile:
        if away:
            await meanwhile.enter_async_context(harness.without_redis())
        await asyncio.gather(*map(harness.advance, side_by_side))
        # A ride that found all drivers locked tries again: by now the others have committed.
        for ride_id in side_by_side:
            if not await harness.asked_drivers(ride_id):
                await harness.fire_timer(ride_id, woken=True)
    offered = [await harness.asked_drivers(ride_id) for ride_id in side_by_side]
    assert all(len(one) == 1 for one in offered)
    assert sorted(driver_id for one in offered for driver_id in one) == sorted(drivers)


async def test_locked_driver_is_skipped_without_waiting(harness: MatchingHarness) -> None:
    near, next_one = await harness.new_drivers(1, 2)
    first, second = await new_rides(harness, 2)
    async with harness.town.parts.database.transaction() as db:
        await harness.matcher.advance_search(db, first)
        await harness.advance(second)  # while the first has not committed
        assert [*(await harness.verdicts(second)).values()] == ["locked", "offered"]
    assert (await harness.asked_drivers(first), await harness.asked_drivers(second)) == ([near], [next_one])
    assert await harness.lock_holder(near) == str(first)


async def test_without_redis_the_unique_index_decides(harness: MatchingHarness) -> None:
    near, next_one = await harness.new_drivers(1, 2)
    first, second = await new_rides(harness, 2)
    async with harness.without_redis():
        async with harness.town.parts.database.transaction() as db:
            await harness.matcher.advance_search(db, first)
            other = asyncio.create_task(harness.advance(second))
            await until(lambda: waiting_for_locks(harness.town.rides))
        await other
        assert [*(await harness.verdicts(second)).values()] == ["snatched", "offered"]
    assert (await harness.asked_drivers(first), await harness.asked_drivers(second)) == ([near], [next_one])


async def test_without_redis_a_rollback_frees_the_driver(harness: MatchingHarness) -> None:
    near = await harness.town.new_driver(steps=1)
    first, second = await new_rides(harness, 2)
    async with harness.without_redis():
        with pytest.raises(ZeroDivisionError):
            async with harness.town.parts.database.transaction() as db:
                await harness.matcher.advance_search(db, first)
                other = asyncio.create_task(harness.advance(second))
                await until(lambda: waiting_for_locks(harness.town.rides))
                raise ZeroDivisionError
        await other
    assert (await harness.asked_drivers(first), await harness.asked_drivers(second)) == ([], [near])


async def test_faster_operator_offer_moves_the_search_on(harness: MatchingHarness) -> None:
    near, next_one = await harness.new_drivers(1, 2)
    by_hand, searched = await new_rides(harness, 2)
    async with harness.town.parts.database.transaction() as db:
        await make_offers(db, RideId(by_hand), [UserId(near)], ttl=timedelta(seconds=20))
        search = asyncio.create_task(harness.advance(searched))
        await until(lambda: waiting_for_locks(harness.town.rides))
    await search
    assert [*(await harness.verdicts(searched)).values()] == ["snatched", "offered"]
    assert (await harness.asked_drivers(by_hand), await harness.asked_drivers(searched)) == (
        [near],
        [next_one],
    )
    assert (await harness.lock_holder(near), await harness.lock_holder(next_one)) == (None, str(searched))


async def test_search_repeats_soon_if_another_ride_was_faster(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    await harness.lock(driver_id, (await new_rides(harness, 1))[0])
    ride_id = await harness.request_ride()
    (retry,) = await harness.events(ride_id, "matching.retry")
    assert (retry.reason, retry.search) == ("snatched", 1)
    row = await harness.row(ride_id)
    assert (row["search"], row["next_search_at"]) == (1, retry.retry_at)
    assert [*(await harness.verdicts(ride_id)).values()] == ["locked"]


async def test_lock_of_a_failed_step_is_taken_by_the_same_ride(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    (ride_id,) = await new_rides(harness, 1)
    with pytest.raises(ZeroDivisionError):
        async with harness.town.parts.database.transaction() as db:
            await harness.matcher.advance_search(db, ride_id)
            raise ZeroDivisionError
    assert (await harness.asked_drivers(ride_id), await harness.lock_holder(driver_id)) == ([], str(ride_id))
    await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == [driver_id]


async def called_off(harness: MatchingHarness, driver_id: UUID) -> UUID:
    passenger_id = uuid4()
    ride_id = await harness.town.rides.request(passenger_id)
    await harness.town.rides.cancel(ride_id, bearer("passenger", passenger_id))
    return ride_id


async def taken_by_another(harness: MatchingHarness, driver_id: UUID) -> UUID:
    return (await harness.town.rides.accepted())[0]


async def given_up(harness: MatchingHarness, driver_id: UUID) -> UUID:
    ride_id = await harness.town.rides.request()
    await harness.town.rides.offer(ride_id, driver_id)
    await harness.town.rides.accept(ride_id, driver_id)
    await harness.town.rides.give_up(ride_id, driver_id)
    return ride_id


@pytest.mark.parametrize("ended", [called_off, taken_by_another, given_up])
async def test_stale_lock_of_an_ended_ride_is_ignored(
    harness: MatchingHarness, ended: Callable[[MatchingHarness, UUID], Awaitable[UUID]]
) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    await harness.lock(driver_id, await ended(harness, driver_id))
    ride_id = await harness.request_ride()
    assert await harness.asked_drivers(ride_id) == [driver_id]
    assert await harness.lock_holder(driver_id) == str(ride_id)


@pytest.mark.parametrize("holder", ["open", "unknown"])
async def test_lock_of_another_ride_keeps_the_driver(harness: MatchingHarness, holder: str) -> None:
    """Also without an offer in PostgreSQL: the offer may be uncommitted, or the lock another program's."""
    driver_id = await harness.town.new_driver(steps=1)
    other = (await new_rides(harness, 1))[0] if holder == "open" else uuid4()
    await harness.lock(driver_id, other)
    ride_id = await harness.request_ride()
    assert await harness.asked_drivers(ride_id) == []
    assert await harness.lock_holder(driver_id) == str(other)


async def test_parallel_offers_replace_a_refusal(harness: MatchingHarness) -> None:
    harness.use_rules(replace(RULES, offers_at_once=2, max_attempts_per_search=4))
    drivers = await harness.new_drivers(*range(1, 6))
    ride_id = await harness.request_ride()
    assert await harness.asked_drivers(ride_id) == drivers[:2]
    await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == drivers[:2]
    await harness.refuse(ride_id, drivers[0])
    assert await harness.asked_drivers(ride_id) == [drivers[1], drivers[2]]
    await harness.refuse(ride_id, drivers[1])
    assert await harness.asked_drivers(ride_id) == [drivers[2], drivers[3]]
    await harness.refuse(ride_id, drivers[2])
    assert await harness.asked_drivers(ride_id) == [drivers[3]], "the search has reached its attempt limit"
    await harness.refuse(ride_id, drivers[3])
    assert await harness.asked_drivers(ride_id) == [drivers[4]], "the next search makes further offers"
    assert [await harness.lock_holder(one) for one in drivers] == [None] * 4 + [str(ride_id)]


async def test_parallel_offers_of_two_rides_use_different_drivers(harness: MatchingHarness) -> None:
    harness.use_rules(replace(RULES, offers_at_once=2))
    drivers = await harness.new_drivers(*range(1, 5))
    two = await new_rides(harness, 2)
    await asyncio.gather(*map(harness.advance, two))
    offered = [await harness.asked_drivers(ride_id) for ride_id in two]
    assert sorted(one for live in offered for one in live) == sorted(drivers)
    assert [len(live) for live in offered] == [2, 2]


async def test_passengers_get_no_offer_of_their_own_ride(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    ride_id = await harness.town.rides.request(driver_id)
    await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == []
    assert [*(await harness.verdicts(ride_id)).values()] == ["own_ride"]


async def test_without_redis_drivers_come_from_postgresql(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    async with harness.without_redis():
        ride_id = await harness.request_ride()
        assert await harness.asked_drivers(ride_id) == [driver_id]
        await harness.refuse(ride_id, driver_id)
        assert [search["source"] for search in await harness.searches(ride_id)] == ["database", "database"]
        assert (await harness.events(ride_id, "matching.retry"))[-1].reason == "index_away"


async def test_without_redis_an_empty_search_is_repeated(harness: MatchingHarness) -> None:
    async with harness.without_redis():
        ride_id = await harness.request_ride()
        for _ in range(3):
            await harness.town.rides.sql(
                "UPDATE matchings SET next_search_at = clock_timestamp() WHERE ride_id = $1", ride_id
            )
            await harness.fire_timer(ride_id)
        retries = await harness.events(ride_id, "matching.retry")
        assert {(one.reason, one.search) for one in retries} == {("index_away", 1)}
    driver_id = await harness.town.new_driver(steps=1)
    await harness.deliver_all(driver_id)
    await harness.fire_timer(ride_id, woken=True)
    assert await harness.asked_drivers(ride_id) == [driver_id]
    assert await harness.lock_holder(driver_id) == str(ride_id)
