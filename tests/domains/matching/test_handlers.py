"""News comes twice, late, in another order, from an earlier round: no wrong move, no second offer."""

from dataclasses import replace
from uuid import UUID, uuid4

import msgspec
import pytest

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
from tests.domains.matching.office import Office, message_of
from tests.servers import on_one_stack

pytestmark = on_one_stack


def under_another_name(message: Message) -> Message:
    """The same once more, which no inbox recognises."""
    return replace(message, id=new_id())


async def candidates(office: Office, ride_id: UUID) -> list[UUID]:
    """Whom the ride was offered to, as it was told."""
    return [event.driver_id for event in await office.news(ride_id, "matching.candidate_found")]


async def test_news_that_comes_twice_asks_nobody_twice(office: Office) -> None:
    first, second, _third = [await office.town.new_driver(steps=steps) for steps in (1, 2, 3)]
    ride_id = await office.town.rides.request()
    (requested,) = await office.told(ride_id, "ride.requested")
    await office.deliver(requested, requested, under_another_name(requested))
    assert await candidates(office, ride_id) == [first]
    await office.town.rides.reject(ride_id, first)
    (rejected,) = await office.told(ride_id, "matching.driver_rejected")
    await office.deliver(rejected, rejected, under_another_name(rejected), requested)
    assert await candidates(office, ride_id) == [first, second]
    assert await office.live(ride_id) == [second]
    assert (await office.row(ride_id))["offers"] == 2


async def test_a_refusal_and_a_timeout_of_one_driver_go_on_to_one_other(office: Office) -> None:
    first, second, _third = [await office.town.new_driver(steps=steps) for steps in (1, 2, 3)]
    ride_id = await office.requested()
    await office.town.rides.reject(ride_id, first)
    (rejected,) = await office.news(ride_id, "matching.driver_rejected")
    late = DriverTimeout(
        offer_id=rejected.offer_id,
        ride_id=ride_id,
        driver_id=first,
        round=1,
        attempt=1,
        timeout_at=now(),
        ttl_expired=True,
    )
    await office.deliver(message_of(rejected), message_of(late))
    assert await candidates(office, ride_id) == [first, second]
    assert await office.holder(second) == str(ride_id)


async def test_a_driver_whose_time_ran_out_is_let_go_and_the_next_one_hears_of_it(office: Office) -> None:
    first, second = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    ride_id = await office.requested()
    await office.town.rides.let_lapse(ride_id)
    await office.town.rides.settle(ride_id)
    await office.carry(ride_id)
    assert await office.live(ride_id) == [second]
    assert await office.holder(first) is None
    found = (await office.news(ride_id, "matching.candidate_found"))[-1]
    assert (found.attempt, found.previous_timeout, found.previous_rejections) == (2, (first,), ())


async def test_a_ride_canceled_before_its_request_was_heard_of_is_never_offered(office: Office) -> None:
    await office.town.new_driver(steps=1)
    passenger_id = uuid4()
    ride_id = await office.town.rides.request(passenger_id)
    await office.town.rides.cancel(ride_id, bearer("passenger", passenger_id))
    requested, cancelled = await office.told(ride_id)
    await office.deliver(cancelled, requested)
    assert await office.row(ride_id) is None
    assert await office.timer(ride_id) is None
    assert await candidates(office, ride_id) == []


async def test_whoever_is_heard_of_late_finds_the_ride_taken(office: Office) -> None:
    first, second = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    ride_id = await office.requested()
    await office.refused(ride_id, first)
    await office.taken(ride_id, second)
    before = await office.told(ride_id)
    await office.deliver(
        *(under_another_name(one) for one in before if one.key != "matching.driver_accepted")
    )
    assert await candidates(office, ride_id) == [first, second]
    row = await office.row(ride_id)
    assert (row["phase"], row["wake_at"]) == ("matched", None)
    assert await office.timer(ride_id) is None
    assert await office.town.rides.status(ride_id) == "ACCEPTED"


async def test_news_of_an_earlier_round_changes_nothing_in_the_next(office: Office) -> None:
    first, second, third = [await office.town.new_driver(steps=steps) for steps in (1, 2, 3)]
    ride_id = await office.requested()
    await office.refused(ride_id, first)
    await office.taken(ride_id, second)
    await office.carry(ride_id)
    await office.town.rides.give_up(ride_id, second)
    await office.carry(ride_id)
    assert await office.live(ride_id) == [third]
    row, told = await office.row(ride_id), await office.told(ride_id)
    assert row["round"] == 2
    await office.deliver(*(under_another_name(one) for one in reversed(told)))
    assert await office.row(ride_id) == row
    assert await office.live(ride_id) == [third]
    assert [one.id for one in await office.told(ride_id)] == [one.id for one in told]
    assert await office.holder(third) == str(ride_id)


async def test_the_next_round_may_be_heard_of_before_the_acceptance_it_follows(office: Office) -> None:
    first, second = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    ride_id = await office.requested()
    await office.taken(ride_id, first)
    await office.town.rides.give_up(ride_id, first)
    (accepted,) = await office.told(ride_id, "matching.driver_accepted")
    (reassigning,) = await office.told(ride_id, "ride.reassigning")
    await office.deliver(reassigning, accepted)
    assert await office.live(ride_id) == [second]
    assert await office.news(ride_id, "ride.matched") == []
    assert await office.holder(first) is None, "who gave up is not locked for the ride again"


async def test_a_driver_who_goes_offline_is_not_waited_for(office: Office) -> None:
    first, second = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    ride_id = await office.requested()
    await office.town.go(first, online=False)
    await office.carry(first)
    (gone,) = await office.news(ride_id, "matching.driver_timeout")
    assert (gone.driver_id, gone.ttl_expired) == (first, False)
    await office.carry(ride_id)
    assert await office.live(ride_id) == [second]
    assert await office.holder(first) is None
    assert (await office.news(ride_id, "matching.candidate_found"))[-1].previous_timeout == (first,)
    answer = await office.town.rides.accept(ride_id, first)
    assert (answer.status_code, answer.json()["code"]) == (410, "offer_expired")
    assert (await office.town.rides.reject(ride_id, first)).status_code == 410
    await office.deliver(*map(under_another_name, await office.told(first)))
    assert await office.live(ride_id) == [second]


async def test_a_driver_who_is_back_before_it_is_heard_of_keeps_the_offer(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    await office.town.go(driver_id, online=False)
    await office.town.go(driver_id, online=True, position=spot(1))
    ride_id = await office.requested()
    await office.carry(driver_id)
    assert await office.live(ride_id) == [driver_id]
    await office.taken(ride_id, driver_id)


async def test_who_goes_offline_on_a_ride_keeps_it(office: Office) -> None:
    driver_id = await office.town.new_driver(steps=1)
    ride_id = await office.requested()
    await office.taken(ride_id, driver_id)
    await office.carry(ride_id)
    await office.town.go(driver_id, online=False)
    await office.carry(driver_id)
    assert await office.town.rides.status(ride_id) == "ACCEPTED"
    assert await office.holder(driver_id) == str(ride_id)


async def test_an_offer_lost_with_its_ride_cannot_be_answered(office: Office) -> None:
    driver_id, passenger_id = await office.town.new_driver(steps=1), uuid4()
    ride_id = await office.town.rides.request(passenger_id)
    await office.carry(ride_id)
    await office.town.rides.cancel(ride_id, bearer("passenger", passenger_id))
    for _ in range(2):  # before it is heard of, and after
        answer = await office.town.rides.accept(ride_id, driver_id)
        assert (answer.status_code, answer.json()["ride_status"]) == (400, "CANCELED")
        assert (await office.town.rides.reject(ride_id, driver_id)).status_code == 410
        await office.carry(ride_id)
    assert await office.holder(driver_id) is None
    assert (await office.row(ride_id))["phase"] == "ended"


async def test_who_was_passed_over_cannot_answer_for_who_was_asked(office: Office) -> None:
    first, second = [await office.town.new_driver(steps=steps) for steps in (1, 2)]
    ride_id = await office.requested()
    answer = await office.town.rides.accept(ride_id, second)
    assert (answer.status_code, answer.json()["code"]) == (403, "offer_not_received")
    assert (await office.town.rides.reject(ride_id, second)).status_code == 403
    await office.advance(ride_id)
    assert await office.live(ride_id) == [first]


async def test_a_refusal_that_is_repeated_moves_the_search_once(office: Office) -> None:
    first, second, _third = [await office.town.new_driver(steps=steps) for steps in (1, 2, 3)]
    ride_id = await office.requested()
    for _ in range(3):
        assert (await office.town.rides.reject(ride_id, first)).status_code == 200
        await office.carry(ride_id)
    assert len(await office.told(ride_id, "matching.driver_rejected")) == 1
    assert await candidates(office, ride_id) == [first, second]


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
        DriverTimeout(**offer, timeout_at=now(), ttl_expired=True),
        MatchingTimeout(**ride, **ended),
        NoDriversAvailable(**ride, **ended),
    ]


@pytest.mark.parametrize("event", of_an_unknown_ride(), ids=lambda event: type(event).__name__)
async def test_news_of_a_ride_that_is_not_there_does_nothing(office: Office, event: Event) -> None:
    ride_id: UUID = msgspec.structs.asdict(event)["ride_id"]
    await office.deliver(message_of(event))
    assert await office.row(ride_id) is None
    assert await office.told(ride_id) == []
