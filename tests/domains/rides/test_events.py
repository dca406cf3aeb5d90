"""Events of rides are written with the change, never without it."""

import asyncio
from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import pytest

from catraca.domains.rides.acceptance import service as accepting_module
from catraca.domains.rides.acceptance.service import Acceptance
from catraca.events import (
    CandidateFound,
    DriverAccepted,
    DriverRejected,
    DriverTimeout,
    OfferCanceled,
    RideAccepted,
    RideArriving,
    RideCancelled,
    RideCompleted,
    RideReassigning,
    RideRequested,
    RideStarted,
)
from tests.conftest import bearer
from tests.domains.rides.attempts import all_at_once, attempt_at
from tests.domains.rides.desk import EVENTS_SQL, WAY, Desk, moment


class Undone(Exception):
    pass


async def only_event(desk: Desk, ride_id: UUID, kind: type) -> Any:
    (event,) = (event for event in await desk.events(ride_id) if isinstance(event, kind))
    return event


async def test_rolled_back_accept_leaves_no_rows(desk: Desk) -> None:
    ride_id, (driver_id, _) = await desk.offered(2)
    steps = (await desk.timeline(ride_id))["steps"]
    with pytest.raises(Undone):
        async with desk.database.transaction() as db:
            judged = await accepting_module.claim_rides(db, [attempt_at(ride_id, driver_id)])
            assert [one.outcome for one in judged.values()] == ["accepted"]
            raise Undone
    assert await desk.event_keys(ride_id) == ["ride.requested"]
    assert Counter(type(one) for one in await desk.events(ride_id)) == {RideRequested: 1, CandidateFound: 2}
    assert await desk.attempts(ride_id) == []
    timeline = await desk.timeline(ride_id)
    assert timeline["steps"] == steps
    assert [offer["response"] for offer in timeline["offers"]] == [None, None]


async def test_accept_is_invisible_before_its_commit(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    async with desk.database.transaction() as db:
        await accepting_module.claim_rides(db, [attempt_at(ride_id, driver_id)])
        assert await desk.event_keys(ride_id) == ["ride.requested"]
        assert await desk.status(ride_id) == "OFFERED"
    assert await desk.event_keys(ride_id) == ["ride.requested", "ride.accepted"]


async def test_refused_attempt_publishes_no_event(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id)
    before = await desk.events(ride_id)
    await desk.accept(ride_id, loser_id)
    await desk.accept(ride_id, await desk.new_driver())
    await desk.accept(ride_id, winner_id, "again")
    assert await desk.events(ride_id) == before


async def test_acceptance_events_reach_winner_and_losers(desk: Desk) -> None:
    passenger_id = uuid4()
    ride_id, (winner_id, *losers) = await desk.offered(3, passenger_id=passenger_id)
    await desk.accept(ride_id, winner_id)
    offers = {UUID(one["driver_id"]): one for one in (await desk.timeline(ride_id))["offers"]}
    accepted = await only_event(desk, ride_id, RideAccepted)
    assert (accepted.driver_id, accepted.passenger_id, accepted.round) == (winner_id, passenger_id, 1)
    assert (accepted.pickup_lat, accepted.pickup_lon) == (WAY["pickup_lat"], WAY["pickup_lon"])
    assert accepted.accepted_at == moment((await desk.read(ride_id))["accepted_at"])
    matched = await only_event(desk, ride_id, DriverAccepted)
    assert str(accepted.offer_id) == str(matched.offer_id) == offers[winner_id]["offer_id"]
    lost = [event for event in await desk.events(ride_id) if isinstance(event, OfferCanceled)]
    assert {event.driver_id for event in lost} == set(losers)
    for event in lost:
        offer = offers[event.driver_id]
        assert (str(event.offer_id), event.attempt) == (offer["offer_id"], offer["attempt"])
        assert event.reason == offer["reason"] == "accepted_by_another_driver"


async def test_every_step_of_a_ride_publishes_its_event(desk: Desk) -> None:
    passenger_id = uuid4()
    ride_id, driver_id = await desk.accepted(passenger_id)
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    keys = ["ride.requested", "ride.accepted", "ride.arriving", "ride.started", "ride.completed"]
    assert await desk.event_keys(ride_id) == keys
    ride = await desk.read(ride_id)
    requested = await only_event(desk, ride_id, RideRequested)
    assert requested.rider_id == passenger_id
    assert requested.estimated_fare_cents == ride["estimated_fare_cents"]
    assert (requested.dropoff.lat, requested.dropoff.lng) == (WAY["dropoff_lat"], WAY["dropoff_lon"])
    for kind in (RideArriving, RideStarted, RideCompleted):
        event = await only_event(desk, ride_id, kind)
        assert (event.rider_id, event.driver_id) == (passenger_id, driver_id)
    assert (await only_event(desk, ride_id, RideCompleted)).fare_cents == ride["final_fare_cents"]


async def test_every_step_names_its_event(desk: Desk) -> None:
    """Every step has one event; the event of an offer can be a step's event too."""
    ride_id, (driver_id, other_id) = await desk.offered(2)
    await desk.reject(ride_id, other_id)
    await desk.accept(ride_id, driver_id)
    await desk.give_up(ride_id, driver_id)
    await desk.offer(ride_id, await desk.new_driver())
    await desk.let_lapse(ride_id)
    await desk.settle(ride_id)
    await desk.cancel(ride_id, desk.operator)
    steps = [step["news"] for step in (await desk.timeline(ride_id))["steps"]]
    assert steps == [
        "ride.requested",
        "matching.candidate_found",
        "ride.accepted",
        "ride.reassigning",
        "matching.candidate_found",
        "matching.driver_timeout",
        "ride.cancelled",
    ]
    assert await desk.event_keys(ride_id) == [key for key in steps if key.startswith("ride.")]


async def test_event_of_a_ride_given_up_has_the_new_round(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    before = moment((await desk.read(ride_id))["deadline_at"])
    await desk.give_up(ride_id, driver_id)
    event = await only_event(desk, ride_id, RideReassigning)
    assert (event.round, event.previous_driver_id, event.reason) == (2, driver_id, "vehicle_problem")
    assert event.deadline_at == moment((await desk.read(ride_id))["deadline_at"]) > before


async def test_offer_events_have_rounded_places(desk: Desk) -> None:
    """The event lists the drivers who rejected before and those who did not answer."""
    ride_id, (refuses_id, silent_id) = await desk.offered(2)
    await desk.reject(ride_id, refuses_id, "too_far")
    await desk.let_lapse(ride_id)
    await desk.settle(ride_id)
    third_id = await desk.new_driver()
    await desk.offer(ride_id, third_id)
    rejected = await only_event(desk, ride_id, DriverRejected)
    assert (rejected.driver_id, rejected.reason, rejected.attempt) == (refuses_id, "too_far", 1)
    silent = await only_event(desk, ride_id, DriverTimeout)
    assert (silent.driver_id, silent.ttl_expired, silent.attempt) == (silent_id, False, 2)
    found = [event for event in await desk.events(ride_id) if isinstance(event, CandidateFound)]
    (event,) = (event for event in found if event.driver_id == third_id)
    assert (event.previous_rejections, event.previous_timeout) == ((refuses_id,), (silent_id,))
    assert (event.pickup.lat, event.pickup.lng) == (-12.978, -38.502)
    assert event.attempt == 3


async def test_cancellation_event_reaches_every_offered_driver(desk: Desk) -> None:
    passenger_id = uuid4()
    ride_id, drivers = await desk.offered(2, passenger_id=passenger_id)
    await desk.cancel(ride_id, bearer("passenger", passenger_id), "changed_plans")
    event = await only_event(desk, ride_id, RideCancelled)
    assert (event.cancelled_by, event.reason, event.driver_id) == ("passenger", "changed_plans", None)
    lost = [event for event in await desk.events(ride_id) if isinstance(event, OfferCanceled)]
    assert {(event.driver_id, event.reason) for event in lost} == {
        (driver_id, "ride_canceled") for driver_id in drivers
    }


async def test_every_event_has_round_and_number(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.give_up(ride_id, driver_id)
    rows = await desk.sql(
        f"SELECT seq, headers->>'round' AS round, headers->>'seq' AS told_seq FROM ({EVENTS_SQL}) AS o"
        " WHERE aggregate_id = $1 ORDER BY seq",
        ride_id,
    )
    assert [(row["seq"], row["round"]) for row in rows] == [(1, "1"), (2, "1"), (3, "2")]
    assert [int(row["told_seq"]) for row in rows] == [1, 2, 3]


async def test_two_wins_in_one_statement_publish_both_events(desk: Desk) -> None:
    offered = [await desk.offered(2) for _ in range(2)]
    attempts = [attempt_at(ride, driver) for ride, drivers in offered for driver in drivers]
    await all_at_once(Acceptance(desk.database), *attempts)
    per_ride = await asyncio.gather(*(desk.events(ride) for ride, _ in offered))
    for (ride_id, (winner_id, loser_id)), events in zip(offered, per_ride, strict=True):
        (accepted,) = (event for event in events if isinstance(event, RideAccepted))
        (lost,) = (event for event in events if isinstance(event, OfferCanceled))
        assert (accepted.ride_id, accepted.driver_id) == (ride_id, winner_id)
        assert (lost.ride_id, lost.driver_id) == (ride_id, loser_id)
