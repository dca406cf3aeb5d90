"""Events that are repeated, late, reordered or of an earlier round make no second offer."""

from uuid import UUID, uuid4

import msgspec
import pytest
from msgspec.structs import replace

from catraca.events import (
    DriverAccepted,
    DriverRejected,
    DriverTimeout,
    MatchingTimeout,
    NoDriversAvailable,
    RideCancelled,
    RideCompleted,
    RideReassigning,
    RideRequested,
)
from catraca.events.rides import Point
from catraca.platform.bus import Message
from catraca.platform.clock import now
from catraca.platform.event import Event
from catraca.platform.ids import new_id
from tests.conftest import bearer
from tests.domains.location.town import spot
from tests.domains.matching.harness import MatchingHarness, message_of
from tests.servers import on_one_stack

pytestmark = on_one_stack


def under_another_name(message: Message) -> Message:
    """Return a copy with a new id, which the inbox does not recognize."""
    return replace(message, id=new_id())


async def candidates(harness: MatchingHarness, ride_id: UUID) -> list[UUID]:
    """Return the drivers in the ride's `candidate_found` events."""
    return [event.driver_id for event in await harness.events(ride_id, "matching.candidate_found")]


async def test_repeated_events_make_no_second_offer(harness: MatchingHarness) -> None:
    first, second, _third = await harness.new_drivers(1, 2, 3)
    ride_id = await harness.town.rides.request()
    (requested,) = await harness.messages(ride_id, "ride.requested")
    await harness.deliver(requested, requested, under_another_name(requested))
    assert await candidates(harness, ride_id) == [first]
    await harness.town.rides.reject(ride_id, first)
    (rejected,) = await harness.messages(ride_id, "matching.driver_rejected")
    await harness.deliver(rejected, rejected, under_another_name(rejected), requested)
    assert await candidates(harness, ride_id) == [first, second]
    assert await harness.asked_drivers(ride_id) == [second]
    assert (await harness.row(ride_id))["offers"] == 2


async def test_refusal_and_timeout_of_a_driver_count_once(harness: MatchingHarness) -> None:
    first, second, _third = await harness.new_drivers(1, 2, 3)
    ride_id = await harness.request_ride()
    await harness.town.rides.reject(ride_id, first)
    (rejected,) = await harness.events(ride_id, "matching.driver_rejected")
    late = DriverTimeout(
        offer_id=rejected.offer_id,
        ride_id=ride_id,
        driver_id=first,
        round=1,
        attempt=1,
        timeout_at=now(),
    )
    await harness.deliver(message_of(rejected), message_of(late))
    assert await candidates(harness, ride_id) == [first, second]
    assert await harness.lock_holder(second) == str(ride_id)


async def test_expired_offer_frees_the_driver_and_asks_the_next(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.town.rides.let_lapse(ride_id)
    await harness.town.rides.settle(ride_id)
    await harness.deliver_all(ride_id)
    assert await harness.asked_drivers(ride_id) == [second]
    assert await harness.lock_holder(first) is None
    found = (await harness.events(ride_id, "matching.candidate_found"))[-1]
    assert (found.attempt, found.previous_timeout, found.previous_rejections) == (2, (first,), ())


async def test_ride_canceled_before_its_search_is_never_offered(harness: MatchingHarness) -> None:
    await harness.town.new_driver(steps=1)
    passenger_id = uuid4()
    ride_id = await harness.town.rides.request(passenger_id)
    await harness.town.rides.cancel(ride_id, bearer("passenger", passenger_id))
    requested, cancelled = await harness.messages(ride_id)
    await harness.deliver(cancelled, requested)
    assert await harness.row(ride_id) is None
    assert await harness.timer_due_at(ride_id) is None
    assert await candidates(harness, ride_id) == []


async def test_late_events_do_not_change_an_accepted_ride(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, first)
    await harness.accept(ride_id, second)
    before = await harness.messages(ride_id)
    await harness.deliver(
        *(under_another_name(one) for one in before if one.key != "matching.driver_accepted")
    )
    assert await candidates(harness, ride_id) == [first, second]
    row = await harness.row(ride_id)
    assert (row["phase"], row["wake_at"]) == ("matched", None)
    assert await harness.timer_due_at(ride_id) is None
    assert await harness.town.rides.status(ride_id) == "ACCEPTED"


async def test_events_of_an_earlier_round_change_nothing(harness: MatchingHarness) -> None:
    first, second, third = await harness.new_drivers(1, 2, 3)
    ride_id = await harness.request_ride()
    await harness.refuse(ride_id, first)
    await harness.accept(ride_id, second)
    await harness.deliver_all(ride_id)
    await harness.town.rides.give_up(ride_id, second)
    await harness.deliver_all(ride_id)
    assert await harness.asked_drivers(ride_id) == [third]
    row, messages = await harness.row(ride_id), await harness.messages(ride_id)
    assert row["round"] == 2
    await harness.deliver(*(under_another_name(one) for one in reversed(messages)))
    assert await harness.row(ride_id) == row
    assert await harness.asked_drivers(ride_id) == [third]
    assert [one.id for one in await harness.messages(ride_id)] == [one.id for one in messages]
    assert await harness.lock_holder(third) == str(ride_id)


async def test_reassignment_may_arrive_before_the_acceptance(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, first)
    await harness.town.rides.give_up(ride_id, first)
    (accepted,) = await harness.messages(ride_id, "matching.driver_accepted")
    (reassigning,) = await harness.messages(ride_id, "ride.reassigning")
    await harness.deliver(reassigning, accepted)
    assert await harness.asked_drivers(ride_id) == [second]
    assert await harness.events(ride_id, "ride.matched") == []
    assert await harness.lock_holder(first) is None, "the driver who gave up is not locked again"


async def test_offline_driver_loses_the_offer(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    await harness.town.go(first, online=False)
    await harness.deliver_all(first)
    (gone,) = await harness.events(ride_id, "matching.driver_timeout")
    assert (gone.driver_id, gone.reason) == (first, "driver_offline")
    await harness.deliver_all(ride_id)
    assert await harness.asked_drivers(ride_id) == [second]
    assert await harness.lock_holder(first) is None
    assert (await harness.events(ride_id, "matching.candidate_found"))[-1].previous_timeout == (first,)
    answer = await harness.town.rides.accept(ride_id, first)
    assert (answer.status_code, answer.json()["code"]) == (410, "offer_expired")
    assert (await harness.town.rides.reject(ride_id, first)).status_code == 410
    await harness.deliver(*map(under_another_name, await harness.messages(first)))
    assert await harness.asked_drivers(ride_id) == [second]


async def test_driver_online_again_keeps_the_offer(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    await harness.town.go(driver_id, online=False)
    await harness.town.go(driver_id, online=True, position=spot(1))
    ride_id = await harness.request_ride()
    await harness.deliver_all(driver_id)
    assert await harness.asked_drivers(ride_id) == [driver_id]
    await harness.accept(ride_id, driver_id)


async def test_driver_offline_during_a_ride_keeps_it(harness: MatchingHarness) -> None:
    driver_id = await harness.town.new_driver(steps=1)
    ride_id = await harness.request_ride()
    await harness.accept(ride_id, driver_id)
    await harness.deliver_all(ride_id)
    await harness.town.go(driver_id, online=False)
    await harness.deliver_all(driver_id)
    assert await harness.town.rides.status(ride_id) == "ACCEPTED"
    assert await harness.lock_holder(driver_id) == str(ride_id)


async def test_offer_of_a_canceled_ride_cannot_be_answered(harness: MatchingHarness) -> None:
    driver_id, passenger_id = await harness.town.new_driver(steps=1), uuid4()
    ride_id = await harness.town.rides.request(passenger_id)
    await harness.deliver_all(ride_id)
    await harness.town.rides.cancel(ride_id, bearer("passenger", passenger_id))
    for _ in range(2):  # before the event is delivered, and after
        answer = await harness.town.rides.accept(ride_id, driver_id)
        assert (answer.status_code, answer.json()["ride_status"]) == (400, "CANCELED")
        assert (await harness.town.rides.reject(ride_id, driver_id)).status_code == 410
        await harness.deliver_all(ride_id)
    assert await harness.lock_holder(driver_id) is None
    assert (await harness.row(ride_id))["phase"] == "ended"


async def test_driver_without_an_offer_cannot_answer(harness: MatchingHarness) -> None:
    first, second = await harness.new_drivers(1, 2)
    ride_id = await harness.request_ride()
    answer = await harness.town.rides.accept(ride_id, second)
    assert (answer.status_code, answer.json()["code"]) == (403, "offer_not_received")
    assert (await harness.town.rides.reject(ride_id, second)).status_code == 403
    await harness.advance(ride_id)
    assert await harness.asked_drivers(ride_id) == [first]


async def test_repeated_refusal_moves_the_search_once(harness: MatchingHarness) -> None:
    first, second, _third = await harness.new_drivers(1, 2, 3)
    ride_id = await harness.request_ride()
    for _ in range(3):
        assert (await harness.town.rides.reject(ride_id, first)).status_code == 200
        await harness.deliver_all(ride_id)
    assert len(await harness.messages(ride_id, "matching.driver_rejected")) == 1
    assert await candidates(harness, ride_id) == [first, second]


def of_an_unknown_ride() -> list[Event]:
    ride_id, rider_id, driver_id = uuid4(), uuid4(), uuid4()
    offer = {"offer_id": uuid4(), "ride_id": ride_id, "driver_id": driver_id, "round": 1, "attempt": 1}
    ride = {"ride_id": ride_id, "round": 1, "rider_id": rider_id}
    ended = {
        "pickup": Point(0, 0),
        "started_at": now(),
        "timeout_at": now(),
        "total_attempts": 1,
        "searches": 1,
        "search_radius_km": 5.0,
        "reason": "no_drivers_in_area",
    }
    return [
        RideRequested(**ride, pickup=Point(0, 0), deadline_at=now()),
        RideReassigning(
            **ride, previous_driver_id=driver_id, reason="other", pickup=Point(0, 0), deadline_at=now()
        ),
        RideCompleted(**ride, driver_id=driver_id, fare_cents=1, completed_at=now()),
        RideCancelled(**ride, cancelled_by="system", reason="expired", cancelled_at=now()),
        DriverAccepted(**offer, rider_id=rider_id, accepted_at=now()),
        DriverRejected(**offer, rejected_at=now()),
        DriverTimeout(**offer, timeout_at=now()),
        MatchingTimeout(**ride, **ended),
        NoDriversAvailable(**ride, **ended),
    ]


@pytest.mark.parametrize("event", of_an_unknown_ride(), ids=lambda event: type(event).__name__)
async def test_events_of_an_unknown_ride_do_nothing(harness: MatchingHarness, event: Event) -> None:
    ride_id: UUID = msgspec.structs.asdict(event)["ride_id"]
    await harness.deliver(message_of(event))
    assert await harness.row(ride_id) is None
    assert await harness.messages(ride_id) == []
