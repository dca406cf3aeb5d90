"""Checks on real servers, one for each planted bug; they hold for the present code."""

from datetime import timedelta
from uuid import UUID, uuid4

from catraca import settings
from catraca.domains.matching.search import model
from catraca.domains.matching.search.handlers import HANDLERS
from catraca.domains.matching.search.service import MATCHING_WAKE
from catraca.platform.bus import queue_worker
from catraca.platform.bus.postgres import PostgresBus
from catraca.platform.database import Db
from catraca.platform.redis_client import RedisClient
from catraca.roles.domain_rules import matcher_of
from tests.domains.location.town import spot
from tests.domains.matching.harness import MatchingHarness


async def nearest_driver_is_asked(harness: MatchingHarness) -> None:
    _, near = await harness.new_drivers(3, 1)
    assert await harness.asked_drivers(await harness.request_ride()) == [near]


async def lock_outlives_its_offer(harness: MatchingHarness) -> None:
    (driver_id,) = await harness.new_drivers(1)
    await harness.request_ride()
    async with harness.town.parts.database.connection() as db:
        left_seconds = await db.fetchval(
            "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM ride_offers"
            " WHERE driver_id = $1",
            driver_id,
        )
    locked_for_ms = await harness.town.redis.command("PTTL", f"driver:{driver_id}:lock")
    assert isinstance(locked_for_ms, int)
    assert locked_for_ms / 1000 > left_seconds


async def settings_make_locks_outlive_offers(_: MatchingHarness) -> None:
    for seconds in (1, 15, 60):
        terms = matcher_of(
            settings.read_settings(lock_ttl=timedelta(seconds=seconds)), RedisClient(None)
        ).terms
        assert terms.offer_lease > terms.offer_ttl


async def refusal_is_final(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, first)
    assert await harness.asked_drivers(ride_id) == [second]


async def silence_is_final(harness: MatchingHarness) -> None:
    _, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.town.rides.let_lapse(ride_id)
    await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == [second]


async def repeated_refusal_counts_once(harness: MatchingHarness) -> None:
    first, second, _ = await harness.new_drivers(1, 2, 3)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, first)
    await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == [second]


async def refusal_releases_the_driver(harness: MatchingHarness) -> None:
    (driver_id,) = await harness.new_drivers(1)
    first = await harness.request_ride()
    await harness.refuse(first, driver_id)
    assert await harness.lock_holder(driver_id) is None
    assert await harness.asked_drivers(await harness.request_ride()) == [driver_id]


async def late_event_keeps_other_locks(harness: MatchingHarness) -> None:
    (driver_id,) = await harness.new_drivers(1)
    first = await harness.request_ride()
    await harness.town.rides.reject(first, driver_id)
    await harness.lock(driver_id, other := uuid4())
    await harness.deliver_all(first, "matching.driver_rejected")
    assert await harness.lock_holder(driver_id) == str(other)


async def acceptance_keeps_the_lock(harness: MatchingHarness) -> None:
    (driver_id,) = await harness.new_drivers(1)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, driver_id)
    await harness.deliver_all(ride_id, "matching.driver_accepted")
    assert await harness.lock_holder(driver_id) == str(ride_id)


async def late_event_publishes_no_match(harness: MatchingHarness) -> None:
    (driver_id,) = await harness.new_drivers(1)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, driver_id)
    await harness.town.rides.give_up(ride_id, driver_id)
    await harness.deliver_all(ride_id, "matching.driver_accepted")
    assert await harness.messages(ride_id, "ride.matched") == []


async def search_has_a_timer(harness: MatchingHarness) -> None:
    ride_id = await harness.request_ride()
    assert await harness.timer_due_at(ride_id) == (await harness.row(ride_id))["wake_at"]


async def empty_search_counts(harness: MatchingHarness) -> None:
    (driver_id,) = await harness.new_drivers(1)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, driver_id)
    row = await harness.row(ride_id)
    assert (row["search"], row["offers"]) == (3, 0)


async def driver_near_wakes_a_search(harness: MatchingHarness) -> None:
    ride_id = await harness.request_ride()
    driver_id = await harness.town.rides.new_driver()
    await harness.town.go(driver_id, online=True, position=spot(1))
    await harness.deliver_all(driver_id)
    assert await harness.timer_due_at(ride_id, MATCHING_WAKE) is not None


class _Crash(Exception):
    """The dispatcher dies before its commit."""


async def crash_loses_no_message(harness: MatchingHarness) -> None:
    (driver_id,) = await harness.new_drivers(1)
    parts, dies = harness.town.parts, True
    advance = harness.matcher.advance_search

    async def advance_and_die(db: Db, ride_id: UUID, signal: object = model.Recheck) -> None:
        await advance(db, ride_id)
        if dies:
            raise _Crash

    harness.matcher.advance_search = advance_and_die  # type: ignore[method-assign, assignment]
    bus, queue = PostgresBus(parts.database, parts.topology), parts.topology.queue("matching_service_queue")
    handlers = next(one for one in HANDLERS if one.queue == queue.name).bind(harness.matcher)
    worker = queue_worker.QueueWorker(
        queue, handlers, topology=parts.topology, transport=bus, database=parts.database
    )
    ride_id = await harness.town.rides.request()
    await bus.publish(await harness.messages(ride_id, "ride.requested"))
    subscription = worker._subscription = await bus.subscribe(queue, when_ready=parts.database.is_up)
    try:
        deliveries = await subscription.next(1)
        values = {one: await handlers.prepare(one.message) for one in deliveries}
        try:
            await worker._apply(deliveries, values)
        except _Crash:
            dies = False
        assert not dies
        await worker._apply(deliveries, values)
    finally:
        await subscription.close()
    assert await harness.asked_drivers(ride_id) == [driver_id]
