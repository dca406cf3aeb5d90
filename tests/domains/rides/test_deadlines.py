"""Deadlines: offers expire, searches end, and the timer is set for the next deadline."""

from datetime import datetime
from uuid import UUID, uuid4

import pytest

from catraca.domains.rides.search import jobs
from catraca.domains.rides.search.service import SEARCH_GRACE
from catraca.events import DriverTimeout, OfferCanceled, RideCancelled
from tests.conftest import bearer
from tests.domains.rides.desk import Desk, moment
from tests.servers import until
from tests.support.timer_world import keeping


async def timer_of(desk: Desk, ride_id: UUID) -> datetime | None:
    """The time of the ride's timer; None if it is not set."""
    rows = await desk.sql(
        "SELECT due_at FROM timers WHERE kind = 'rides.due' AND subject_id = $1",
        ride_id,
    )
    return rows[0]["due_at"] if rows else None


async def hasten(desk: Desk, ride_id: UUID) -> None:
    """Set the ride's deadline and its timer to now."""
    await desk.end_time_of_search(ride_id)
    await desk.sql("UPDATE timers SET due_at = now(), awake_at = now() WHERE subject_id = $1", ride_id)


async def becomes(desk: Desk, ride_id: UUID, status: str) -> None:
    async def is_so() -> bool:
        return await desk.status(ride_id) == status

    await until(is_so, seconds=20)


async def test_offers_expire_by_their_timer(desk: Desk) -> None:
    ride_id, drivers = await desk.offered(2, ttl_seconds=0.3)
    async with keeping(desk.database, jobs.fires):
        await becomes(desk, ride_id, "SEARCHING")
    offers = (await desk.timeline(ride_id))["offers"]
    assert [one["response"] for one in offers] == ["EXPIRED", "EXPIRED"]
    assert all(one["responded_at"] >= one["expires_at"] for one in offers)
    timeouts = [event for event in await desk.events(ride_id) if isinstance(event, DriverTimeout)]
    assert {event.driver_id for event in timeouts} == set(drivers)
    # The lock outlives the offer, so its TTL never ends first.
    assert {(event.ttl_expired, event.reason) for event in timeouts} == {(False, None)}
    step = (await desk.timeline(ride_id))["steps"][-1]
    assert (step["to_status"], step["actor"], step["reason"]) == ("SEARCHING", "system", "expired")
    made = await desk.offer(await desk.request(), *drivers)
    assert len(made["offers"]) == 2, "the drivers are free"


async def test_timer_expires_only_lapsed_offers(desk: Desk) -> None:
    ride_id, _ = await desk.offered(ttl_seconds=0.2)
    second_id = await desk.new_driver()
    await desk.offer(ride_id, second_id, ttl_seconds=60)

    async def first_ended() -> bool:
        return (await desk.timeline(ride_id))["offers"][0]["response"] == "EXPIRED"

    async with keeping(desk.database, jobs.fires):
        await until(first_ended)
    assert await desk.status(ride_id) == "OFFERED"
    assert await timer_of(desk, ride_id) == moment((await desk.timeline(ride_id))["offers"][1]["expires_at"])
    assert (await desk.accept(ride_id, second_id)).status_code == 200


async def test_ride_without_a_search_expires(desk: Desk) -> None:
    passenger_id = uuid4()
    ride_id = await desk.request(passenger_id)
    async with keeping(desk.database, jobs.fires):
        await hasten(desk, ride_id)
        await becomes(desk, ride_id, "EXPIRED")
    ride = await desk.read(ride_id)
    assert (ride["canceled_by"], ride["driver_id"]) == (None, None)
    (canceled,) = (event for event in await desk.events(ride_id) if isinstance(event, RideCancelled))
    assert (canceled.cancelled_by, canceled.reason) == ("system", "expired")
    assert await timer_of(desk, ride_id) is None
    await desk.request(passenger_id)


async def test_search_without_a_driver_is_canceled_by_the_system(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    await desk.reject(ride_id, driver_id)
    async with keeping(desk.database, jobs.fires):
        await hasten(desk, ride_id)
        await becomes(desk, ride_id, "CANCELED")
    ride = await desk.read(ride_id)
    assert (ride["canceled_by"], ride["cancel_reason"]) == ("system", "no_drivers_available")
    (canceled,) = (event for event in await desk.events(ride_id) if isinstance(event, RideCancelled))
    assert (canceled.cancelled_by, canceled.reason) == ("system", "no_drivers_available")


async def test_live_offer_is_canceled_at_the_end_of_the_search(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    await desk.end_time_of_search(ride_id)
    await desk.settle(ride_id)
    assert await desk.status(ride_id) == "CANCELED"
    (lost,) = (event for event in await desk.events(ride_id) if isinstance(event, OfferCanceled))
    assert (lost.driver_id, lost.reason) == (driver_id, "no_drivers_available")
    answer = await desk.accept(ride_id, driver_id)
    assert (answer.status_code, answer.json()["ride_status"]) == (400, "CANCELED")


async def test_offer_that_lapses_with_the_search_is_a_timeout(desk: Desk) -> None:
    ride_id, _ = await desk.offered()
    await desk.let_lapse(ride_id)
    await desk.end_time_of_search(ride_id)
    await desk.settle(ride_id)
    steps = [step["to_status"] for step in (await desk.timeline(ride_id))["steps"]]
    assert steps == ["REQUESTED", "OFFERED", "SEARCHING", "CANCELED"]
    kinds = {type(event) for event in await desk.events(ride_id)}
    assert {DriverTimeout, RideCancelled} <= kinds
    assert OfferCanceled not in kinds


async def test_timer_is_set_for_the_next_deadline(desk: Desk) -> None:
    ride_id = await desk.request()
    deadline = moment((await desk.read(ride_id))["deadline_at"])
    assert await timer_of(desk, ride_id) == deadline + SEARCH_GRACE
    first_id, second_id = await desk.new_drivers(2)
    late = moment((await desk.offer(ride_id, first_id, ttl_seconds=100))["offers"][0]["expires_at"])
    assert await timer_of(desk, ride_id) == late
    soon = moment((await desk.offer(ride_id, second_id, ttl_seconds=50))["offers"][0]["expires_at"])
    assert await timer_of(desk, ride_id) == soon
    await desk.reject(ride_id, second_id)
    assert await timer_of(desk, ride_id) == late
    await desk.reject(ride_id, first_id)
    assert await timer_of(desk, ride_id) == deadline + SEARCH_GRACE
    third_id = await desk.new_driver()
    await desk.offer(ride_id, third_id)
    await desk.accept(ride_id, third_id)
    assert await timer_of(desk, ride_id) is None
    await desk.give_up(ride_id, third_id)
    later = moment((await desk.read(ride_id))["deadline_at"])
    assert later > deadline
    assert await timer_of(desk, ride_id) == later + SEARCH_GRACE
    await desk.cancel(ride_id, desk.operator)
    assert await timer_of(desk, ride_id) is None


async def test_early_or_repeated_timer_changes_nothing(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    before = await desk.timeline(ride_id)
    await desk.settle(ride_id)
    assert await desk.timeline(ride_id) == before
    await desk.let_lapse(ride_id)
    for _ in range(2):
        await desk.settle(ride_id)
    assert sum(isinstance(event, DriverTimeout) for event in await desk.events(ride_id)) == 1
    await desk.settle(uuid4())  # of an unknown ride
    assert (await desk.accept(ride_id, driver_id)).status_code == 410


@pytest.mark.parametrize("status", ["ACCEPTED", "STARTED", "COMPLETED"])
async def test_timer_does_not_end_a_driven_ride(desk: Desk, status: str) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to(status, ride_id, driver_id)
    await desk.end_time_of_search(ride_id)
    await desk.settle(ride_id)
    assert await desk.status(ride_id) == status


async def test_ride_given_up_gets_a_full_search_time(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.end_time_of_search(ride_id)
    await desk.give_up(ride_id, driver_id)
    await desk.settle(ride_id)
    assert await desk.status(ride_id) == "SEARCHING"
    other_id = await desk.new_driver()
    await desk.offer(ride_id, other_id)
    assert (await desk.accept(ride_id, other_id)).status_code == 200
    active = await desk.api.get(f"/drivers/{driver_id}/active-ride", headers=bearer("driver", driver_id))
    assert active.status_code == 204
