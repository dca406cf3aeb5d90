"""Searches of several rides in one transaction."""

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from uuid import UUID

import pytest

from catraca.domains.matching.search.handlers import HANDLERS
from catraca.domains.people import UserId
from catraca.domains.rides import RideId, RidesCollide
from catraca.domains.rides.offers.service import make_offers
from catraca.domains.rides.store import lock_ride
from catraca.platform.bus import Message, QueueWorker
from catraca.platform.bus.postgres import PostgresBus
from tests.domains.matching.harness import MatchingHarness
from tests.domains.matching.test_contention import new_rides, with_and_without_redis
from tests.domains.rides.attempts import waiting_for_locks
from tests.platform.bus.world import until_over
from tests.servers import until


async def advance_all(harness: MatchingHarness, ride_ids: Sequence[UUID]) -> None:
    traces = {ride_id: f"request {number}" for number, ride_id in enumerate(ride_ids)}
    await harness.town.parts.database.run(lambda db: harness.matcher.advance_searches(db, traces))


async def collisions(harness: MatchingHarness, ride_ids: Sequence[UUID]) -> Collection[UUID]:
    """Return the rides that need a transaction of their own."""
    with pytest.raises(RidesCollide) as raised:
        await advance_all(harness, ride_ids)
    return raised.value.ride_ids


async def deliver_together(harness: MatchingHarness, messages: Sequence[Message]) -> None:
    """Handle messages of one queue as one batch."""
    (handlers,) = [one.bind(harness.matcher) for one in HANDLERS if messages[0].key in (one.keys or ())]
    prepared = [await handlers.prepare(message) for message in messages]
    await harness.town.parts.database.run(lambda db: handlers.write(db, prepared))


@with_and_without_redis
async def test_rides_of_a_batch_get_different_drivers(harness: MatchingHarness, away: bool) -> None:
    drivers = await harness.new_drivers(1, 2, 3)
    ride_ids = await new_rides(harness, 3)
    async with AsyncExitStack() as meanwhile:
        if away:
            await meanwhile.enter_async_context(harness.without_redis())
        await advance_all(harness, ride_ids)
        verdicts = [sorted((await harness.verdicts(ride_id)).values()) for ride_id in ride_ids]
    offered = [await harness.asked_drivers(ride_id) for ride_id in ride_ids]
    assert sorted(offered) == sorted([driver_id] for driver_id in drivers)
    assert sorted(verdicts) == [
        ["locked", "locked", "offered"],
        ["locked", "next", "offered"],
        ["next", "next", "offered"],
    ]
    for ride_id in ride_ids:
        assert await harness.timer_due_at(ride_id) == (await harness.row(ride_id))["wake_at"]


async def test_each_event_of_a_batch_keeps_its_trace(harness: MatchingHarness) -> None:
    await harness.new_drivers(1)
    ride_ids = await new_rides(harness, 2)
    await advance_all(harness, ride_ids)
    messages = [
        message
        for ride_id in ride_ids
        for message in await harness.messages(ride_id, "matching.candidate_found", "matching.retry")
    ]
    assert sorted(message.key for message in messages) == ["matching.candidate_found", "matching.retry"]
    assert [message.headers.trace for message in messages] == ["request 0", "request 1"]


async def test_locked_ride_does_not_delay_the_others(harness: MatchingHarness) -> None:
    await harness.new_drivers(1, 2)
    ride_ids = await new_rides(harness, 2)
    parts = harness.town.parts
    bus, queue = PostgresBus(parts.database, parts.topology), parts.topology.queue("matching_service_queue")
    requests = [one for ride_id in ride_ids for one in await harness.messages(ride_id, "ride.requested")]
    handlers = next(one for one in HANDLERS if one.queue == queue.name).bind(harness.matcher)
    worker = QueueWorker(queue, handlers, topology=parts.topology, transport=bus, database=parts.database)
    locked, other = ride_ids
    async with AsyncExitStack() as running:
        async with parts.database.transaction() as db:
            await lock_ride(db, RideId(locked))
            assert await collisions(harness, ride_ids) == {locked}
            await bus.publish(requests)
            await running.enter_async_context(until_over(worker.run))
            await until(lambda: harness.asked_drivers(other))
            assert await harness.asked_drivers(locked) == []
        await until(lambda: harness.asked_drivers(locked))


async def test_driver_taken_meanwhile_splits_the_batch(harness: MatchingHarness) -> None:
    near, *_ = await harness.new_drivers(1, 2, 3)
    by_hand, *ride_ids = await new_rides(harness, 3)
    async with harness.town.parts.database.transaction() as db:
        await make_offers(db, RideId(by_hand), [UserId(near)], ttl=timedelta(seconds=20))
        batch = asyncio.create_task(collisions(harness, ride_ids))
        await until(lambda: waiting_for_locks(harness.town.rides))
    (collided,) = await batch
    assert collided in ride_ids
    assert [await harness.asked_drivers(ride_id) for ride_id in ride_ids] == [[], []]
    for ride_id in ride_ids:
        await harness.advance(ride_id)
        assert len(await harness.asked_drivers(ride_id)) == 1


async def test_lapsed_offer_of_a_ride_splits_the_batch(harness: MatchingHarness) -> None:
    await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.town.rides.let_lapse(ride_id)
    assert await collisions(harness, [ride_id, *await new_rides(harness, 1)]) == {ride_id}


async def test_acceptances_of_a_batch_are_each_published(harness: MatchingHarness) -> None:
    drivers = await harness.new_drivers(1, 2, 3)
    ride_ids = await new_rides(harness, 3)
    await advance_all(harness, ride_ids)
    accepted: list[Message] = []
    for ride_id in ride_ids:
        (driver_id,) = await harness.asked_drivers(ride_id)
        await harness.accept(ride_id, driver_id)
        accepted += await harness.messages(ride_id, "matching.driver_accepted")
    *kept, given_up = ride_ids
    (offer,) = await harness.events(given_up, "matching.driver_accepted")
    await harness.town.rides.give_up(given_up, offer.driver_id)
    await deliver_together(
        harness, [one.with_headers(trace=f"request {number}") for number, one in enumerate(accepted)]
    )
    matches = [await harness.messages(ride_id, "ride.matched") for ride_id in ride_ids]
    assert [len(one) for one in matches] == [1, 1, 0]
    assert [one.headers.trace for (one,) in matches[:2]] == ["request 0", "request 1"]
    assert [(await harness.row(ride_id))["phase"] for ride_id in kept] == ["matched", "matched"]
    assert [await harness.timer_due_at(ride_id) for ride_id in kept] == [None, None]
    holders = {driver_id: await harness.lock_holder(driver_id) for driver_id in drivers}
    assert {str(ride_id) for ride_id in kept} < set(holders.values())
