"""Checks on real servers that each notice a planted bug; each holds for the code as it is."""

from datetime import timedelta
from uuid import UUID, uuid4

from catraca import settings
from catraca.domains.matching.search import model
from catraca.domains.matching.search.handlers import matching_handlers
from catraca.domains.matching.search.service import MATCHING_WAKE
from catraca.platform.bus import queue_worker
from catraca.platform.bus.postgres import PostgresBus
from catraca.platform.database import Db
from catraca.platform.redis_client import RedisClient
from catraca.roles.domain_rules import matcher_of
from tests.domains.location.town import spot
from tests.domains.matching.office import Office


async def the_nearest_is_asked(office: Office) -> None:
    _, near = await _drivers(office, 3, 1)
    assert await office.live(await office.requested()) == [near]


async def a_lock_outlives_its_offer(office: Office) -> None:
    (driver_id,) = await _drivers(office, 1)
    await office.requested()
    async with office.town.parts.database.connection() as db:
        left_seconds = await db.fetchval(
            "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM ride_offers"
            " WHERE driver_id = $1",
            driver_id,
        )
    locked_for_ms = await office.town.redis.command("PTTL", f"driver:{driver_id}:lock")
    assert isinstance(locked_for_ms, int)
    assert locked_for_ms / 1000 > left_seconds


async def settings_lock_for_longer_than_they_offer(_: Office) -> None:
    for seconds in (1, 15, 60):
        terms = matcher_of(
            settings.read_settings(lock_ttl=timedelta(seconds=seconds)), RedisClient(None)
        ).terms
        assert terms.offer_lease > terms.offer_ttl


async def who_refused_is_not_asked_again(office: Office) -> None:
    first, second = await _drivers(office, 1, 2)
    ride_id = await office.requested()
    await office.refused(ride_id, first)
    assert await office.live(ride_id) == [second]


async def who_was_silent_is_not_asked_again(office: Office) -> None:
    _, second = await _drivers(office, 1, 2)
    ride_id = await office.requested()
    await office.town.rides.let_lapse(ride_id)
    await office.advance(ride_id)
    assert await office.live(ride_id) == [second]


async def a_refusal_told_twice_goes_on_once(office: Office) -> None:
    first, second, _ = await _drivers(office, 1, 2, 3)
    ride_id = await office.requested()
    await office.refused(ride_id, first)
    await office.advance(ride_id)
    assert await office.live(ride_id) == [second]


async def who_refused_is_free_for_others(office: Office) -> None:
    (driver_id,) = await _drivers(office, 1)
    first = await office.requested()
    await office.refused(first, driver_id)
    assert await office.holder(driver_id) is None
    assert await office.live(await office.requested()) == [driver_id]


async def late_news_frees_nobody_who_is_anothers(office: Office) -> None:
    (driver_id,) = await _drivers(office, 1)
    first = await office.requested()
    await office.town.rides.reject(first, driver_id)
    await office.lock(driver_id, other := uuid4())
    await office.carry(first, "matching.driver_rejected")
    assert await office.holder(driver_id) == str(other)


async def who_accepted_stays_locked_for_the_ride(office: Office) -> None:
    (driver_id,) = await _drivers(office, 1)
    ride_id = await office.requested()
    await office.taken(ride_id, driver_id)
    await office.carry(ride_id, "matching.driver_accepted")
    assert await office.holder(driver_id) == str(ride_id)


async def late_news_matches_nobody_who_gave_up(office: Office) -> None:
    (driver_id,) = await _drivers(office, 1)
    ride_id = await office.requested()
    await office.taken(ride_id, driver_id)
    await office.town.rides.give_up(ride_id, driver_id)
    await office.carry(ride_id, "matching.driver_accepted")
    assert await office.told(ride_id, "ride.matched") == []


async def a_search_has_its_timer(office: Office) -> None:
    ride_id = await office.requested()
    assert await office.timer(ride_id) == (await office.row(ride_id))["wake_at"]


async def a_search_that_found_nobody_counts(office: Office) -> None:
    (driver_id,) = await _drivers(office, 1)
    ride_id = await office.requested()
    await office.refused(ride_id, driver_id)
    row = await office.row(ride_id)
    assert (row["search"], row["offers"]) == (3, 0)


async def a_driver_near_by_wakes_who_waits(office: Office) -> None:
    ride_id = await office.requested()
    driver_id = await office.town.rides.new_driver()
    await office.town.go(driver_id, online=True, position=spot(1))
    await office.carry(driver_id)
    assert await office.timer(ride_id, MATCHING_WAKE) is not None


class _Dead(Exception):
    """The dispatcher, before it could commit."""


async def a_dispatchers_death_loses_no_message(office: Office) -> None:
    (driver_id,) = await _drivers(office, 1)
    parts, dies = office.town.parts, True
    advance = office.matcher.advance_search

    async def advance_and_die(db: Db, ride_id: UUID, signal: object = model.Recheck) -> None:
        await advance(db, ride_id)
        if dies:
            raise _Dead

    office.matcher.advance_search = advance_and_die  # type: ignore[method-assign, assignment]
    bus, queue = PostgresBus(parts.database, parts.topology), parts.topology.queue("matching_service_queue")
    handlers = next(one for one in matching_handlers(office.matcher) if one.queue == queue.name)
    worker = queue_worker.Consumer(
        queue, handlers, topology=parts.topology, transport=bus, database=parts.database
    )
    ride_id = await office.town.rides.request()
    await bus.publish(await office.told(ride_id, "ride.requested"))
    subscription = await bus.subscribe(queue, when_ready=parts.database.is_up)
    try:
        deliveries = await subscription.next(1)
        try:
            await worker._apply(subscription, deliveries)
        except _Dead:
            dies = False
        assert not dies
        await worker._apply(subscription, deliveries)
    finally:
        await subscription.close()
    assert await office.live(ride_id) == [driver_id]


async def _drivers(office: Office, *steps: int) -> list[UUID]:
    return [await office.town.new_driver(steps=one) for one in steps]
