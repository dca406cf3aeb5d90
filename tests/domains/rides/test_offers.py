"""Offers: only for free drivers, one per driver, not after the search, and how they end."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from catraca.domains.rides import withdraw_offers
from catraca.events import CandidateFound, DriverTimeout
from tests.conftest import bearer
from tests.domains.rides.desk import Desk, moment
from tests.servers import until


def skipped(made: Any) -> dict[UUID, str]:
    return {UUID(one["driver_id"]): one["reason"] for one in made["skipped"]}


def served(made: Any) -> list[UUID]:
    return [UUID(one["driver_id"]) for one in made["offers"]]


async def response_of(desk: Desk, ride_id: UUID, driver_id: UUID) -> str | None:
    offers = (await desk.timeline(ride_id))["offers"]
    return [one["response"] for one in offers if one["driver_id"] == str(driver_id)][-1]


async def test_offer_moves_the_ride_to_offered(desk: Desk) -> None:
    ride_id, driver_id = await desk.request(), await desk.new_driver()
    made = await desk.offer(ride_id, driver_id, ttl_seconds=5)
    (offer,) = made["offers"]
    assert (offer["driver_id"], offer["attempt"], offer["round"]) == (str(driver_id), 1, 1)
    assert moment(offer["expires_at"]) - moment(offer["offered_at"]) == timedelta(seconds=5)
    assert await desk.status(ride_id) == "OFFERED"
    steps = (await desk.timeline(ride_id))["steps"]
    assert [(step["to_status"], step["actor"]) for step in steps] == [
        ("REQUESTED", "passenger"),
        ("OFFERED", "operator"),
    ]


async def test_offer_time_defaults_to_the_setting(desk: Desk) -> None:
    ride_id, driver_id = await desk.request(), await desk.new_driver()
    made = await desk.api.post(
        f"/v1/rides/{ride_id}/offers", json={"driver_ids": [str(driver_id)]}, headers=desk.operator
    )
    (offer,) = made.json()["offers"]
    assert moment(offer["expires_at"]) - moment(offer["offered_at"]) == timedelta(seconds=20)


async def test_offer_ends_with_the_search(desk: Desk) -> None:
    ride_id, driver_id = await desk.request(), await desk.new_driver()
    made = await desk.offer(ride_id, driver_id, ttl_seconds=3600)
    assert made["offers"][0]["expires_at"] == (await desk.read(ride_id))["deadline_at"]


async def test_more_offers_can_be_made_while_others_are_live(desk: Desk) -> None:
    ride_id, (first_id,) = await desk.offered()
    second_id = await desk.new_driver()
    assert served(await desk.offer(ride_id, second_id)) == [second_id]
    assert [one["attempt"] for one in (await desk.timeline(ride_id))["offers"]] == [1, 2]
    assert len((await desk.timeline(ride_id))["steps"]) == 2, "the ride is offered already: no new step"
    assert (await desk.accept(ride_id, first_id)).status_code == 200


async def test_skipped_drivers_have_a_reason(desk: Desk) -> None:
    passenger_id = await desk.new_driver()
    await desk.sql("UPDATE users SET roles = '{driver,passenger}' WHERE id = $1", passenger_id)
    ride_id, (gave_up_id,) = await desk.offered(passenger_id=passenger_id)
    await desk.accept(ride_id, gave_up_id)
    await desk.give_up(ride_id, gave_up_id)
    _, (thinking_id,) = await desk.offered()
    _, driving_id = await desk.accepted()
    unapproved_id, erased_id, free_id = await desk.new_drivers(3)
    suspension = {"approval": "suspended", "reason": "a test"}
    await desk.api.put(f"/v1/drivers/{unapproved_id}/approval", json=suspension, headers=desk.operator)
    await desk.api.delete(f"/v1/users/{erased_id}", headers=desk.operator)
    stranger_id = uuid4()
    reasons = {
        passenger_id: "own_ride",
        gave_up_id: "gave_it_up",
        thinking_id: "busy",
        driving_id: "busy",
        unapproved_id: "not_a_driver",
        erased_id: "not_a_driver",
        stranger_id: "not_a_driver",
    }
    made = await desk.offer(ride_id, *reasons, free_id, free_id)
    assert skipped(made) == reasons
    assert served(made) == [free_id], "named twice, one offer"


async def test_ride_is_unchanged_if_no_driver_gets_an_offer(desk: Desk) -> None:
    ride_id = await desk.request()
    _, driving_id = await desk.accepted()
    made = await desk.offer(ride_id, driving_id)
    assert (made["offers"], skipped(made)) == ([], {driving_id: "busy"})
    assert await desk.status(ride_id) == "REQUESTED"
    assert [type(event) for event in await desk.events(ride_id) if isinstance(event, CandidateFound)] == []


async def test_lapsed_offer_ends_when_its_driver_gets_another(desk: Desk) -> None:
    """Even before the timer runs."""
    first, (driver_id,) = await desk.offered()
    await desk.let_lapse(first)
    second = await desk.request()
    assert served(await desk.offer(second, driver_id)) == [driver_id]
    assert await response_of(desk, first, driver_id) == "EXPIRED"
    assert await desk.status(first) == "SEARCHING"
    (timeout,) = (event for event in await desk.events(first) if isinstance(event, DriverTimeout))
    assert timeout.driver_id == driver_id
    assert (await desk.accept(first, driver_id)).status_code == 410
    assert (await desk.accept(second, driver_id)).status_code == 200


async def test_driver_is_busy_until_the_ride_ends(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    other = await desk.request()
    for status in ("ACCEPTED", "ARRIVING", "STARTED"):
        await desk.drive_to(status, ride_id, driver_id)
        assert skipped(await desk.offer(other, driver_id)) == {driver_id: "busy"}
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    assert served(await desk.offer(other, driver_id)) == [driver_id]


async def test_driver_can_get_the_ride_again_after_a_lapsed_offer(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    await desk.let_lapse(ride_id)
    made = await desk.offer(ride_id, driver_id)
    assert [one["attempt"] for one in made["offers"]] == [2]
    assert (await desk.accept(ride_id, driver_id)).status_code == 200
    steps = [step["to_status"] for step in (await desk.timeline(ride_id))["steps"]]
    assert steps == ["REQUESTED", "OFFERED", "SEARCHING", "OFFERED", "ACCEPTED"]


async def a_taken_ride(desk: Desk) -> UUID:
    return (await desk.accepted())[0]


async def a_canceled_ride(desk: Desk) -> UUID:
    ride_id = await desk.request()
    await desk.cancel(ride_id, desk.operator)
    return ride_id


async def a_completed_ride(desk: Desk) -> UUID:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    return ride_id


async def a_ride_past_its_search(desk: Desk) -> UUID:
    ride_id = await desk.request()
    await desk.end_time_of_search(ride_id)
    return ride_id


@pytest.mark.parametrize("make", [a_taken_ride, a_canceled_ride, a_completed_ride, a_ride_past_its_search])
async def test_closed_ride_cannot_be_offered(desk: Desk, make: Callable[..., Any]) -> None:
    ride_id, driver_id = await make(desk), await desk.new_driver()
    status = await desk.status(ride_id)
    answer = await desk.try_offer(ride_id, driver_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "ride_not_open")
    assert answer.json()["ride_status"] == status == await desk.status(ride_id)
    assert len((await desk.timeline(ride_id))["offers"]) <= 1


async def test_unknown_ride_cannot_be_offered(desk: Desk) -> None:
    answer = await desk.try_offer(uuid4(), await desk.new_driver())
    assert (answer.status_code, answer.json()["code"]) == (404, "ride_not_found")


async def test_one_request_offers_to_at_most_a_thousand_drivers(desk: Desk) -> None:
    ride_id, drivers = await desk.request(), await desk.new_drivers(1000)
    made = await desk.offer(ride_id, *drivers)
    assert served(made) == drivers, "in the order of the request"
    assert [one["attempt"] for one in made["offers"]] == list(range(1, 1001))
    assert (await desk.try_offer(ride_id, *drivers, uuid4())).status_code == 422


async def test_driver_gets_one_of_the_competing_offers(desk: Desk) -> None:
    """Each driver gets exactly one offer; for the other rides the driver is busy."""
    drivers = await desk.new_drivers(20)
    rides = [await desk.request() for _ in range(4)]
    for _ in range(2):
        made = await asyncio.gather(
            *(
                desk.offer(ride, *(drivers if place % 2 else drivers[::-1]))
                for place, ride in enumerate(rides)
            )
        )
        assert sorted(driver for one in made for driver in served(one)) == sorted(drivers)
        for one in made:
            assert served(one) or set(skipped(one).values()) == {"busy"}
            assert len(served(one)) + len(skipped(one)) == len(drivers)
        await asyncio.gather(*(desk.let_lapse(ride) for ride in rides))


async def test_repeated_offer_with_a_key_is_made_once(desk: Desk) -> None:
    ride_id, driver_id = await desk.request(), await desk.new_driver()
    headers = desk.operator | {"idempotency-key": str(uuid4())}
    body = {"driver_ids": [str(driver_id)]}
    first, again = [
        await desk.api.post(f"/v1/rides/{ride_id}/offers", json=body, headers=headers) for _ in range(2)
    ]
    assert (first.status_code, first.content) == (201, again.content)


async def test_operator_offers_are_audited(desk: Desk) -> None:
    ride_id, _ = await desk.offered(2)
    rows = await desk.sql(
        "SELECT action, data->>'offers' AS offers FROM audit_log WHERE subject_id = $1", str(ride_id)
    )
    assert [(row["action"], row["offers"]) for row in rows] == [("ride.offered", "2")]


async def test_offer_of_an_offline_driver_is_withdrawn(desk: Desk) -> None:
    ride_id, (gone_id, stays_id) = await desk.offered(2)
    for _ in range(2):
        await desk.database.run(lambda db: withdraw_offers(db, gone_id))
    assert await desk.status(ride_id) == "OFFERED"
    (timeout,) = (event for event in await desk.events(ride_id) if isinstance(event, DriverTimeout))
    assert (timeout.driver_id, timeout.ttl_expired, timeout.reason) == (gone_id, False, "driver_offline")
    assert (await desk.accept(ride_id, gone_id)).status_code == 410
    await desk.database.run(lambda db: withdraw_offers(db, stays_id))
    assert await desk.status(ride_id) == "SEARCHING"


async def test_driver_on_a_ride_keeps_it_when_offline(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.database.run(lambda db: withdraw_offers(db, driver_id))
    assert (await desk.read(ride_id))["driver_id"] == str(driver_id)
    assert served(await desk.offer(await desk.request(), driver_id)) == []


async def test_offer_and_withdrawal_do_not_deadlock(desk: Desk) -> None:
    """Every change locks the ride first, so these cannot deadlock."""
    ride_id, drivers = await desk.offered(10)
    more = await desk.new_drivers(5)
    passenger = bearer("passenger", UUID((await desk.read(ride_id))["passenger_id"]))
    await asyncio.gather(
        *(desk.database.run(lambda db, one=one: withdraw_offers(db, one)) for one in drivers[:4]),
        *(desk.reject(ride_id, one) for one in drivers[4:7]),
        *(desk.try_offer(ride_id, one) for one in more),
        desk.settle(ride_id),
        *(desk.accept(ride_id, one) for one in drivers[7:9]),
        desk.cancel(ride_id, passenger, "changed_plans"),
    )
    await until(lambda: _settled(desk, ride_id))


async def _settled(desk: Desk, ride_id: UUID) -> bool:
    timeline = await desk.timeline(ride_id)
    return timeline["status"] == "CANCELED" and all(one["response"] for one in timeline["offers"])
