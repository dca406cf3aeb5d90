"""Rejecting an offer: safe to repeat, in time, and only by its driver."""

import asyncio
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.events import DriverRejected
from tests.conftest import bearer
from tests.domains.rides.desk import Desk
from tests.servers import on_one_stack

pytestmark = on_one_stack


def verdict(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def rejections(desk: Desk, ride_id: UUID) -> int:
    return sum(isinstance(event, DriverRejected) for event in await desk.events(ride_id))


async def test_rejected_offer_returns_the_ride_to_searching(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    answer = await desk.reject(ride_id, driver_id, "too_far")
    assert answer.status_code == 200
    assert (answer.json()["response"], answer.json()["reason"]) == ("REJECTED", "too_far")
    assert await desk.status(ride_id) == "SEARCHING"
    step = (await desk.timeline(ride_id))["steps"][-1]
    assert (step["actor"], step["actor_id"], step["reason"]) == ("driver", str(driver_id), "rejected")


async def test_rejection_releases_only_its_driver(desk: Desk) -> None:
    ride_id, (refuses_id, thinks_id) = await desk.offered(2)
    await desk.reject(ride_id, refuses_id)
    assert await desk.status(ride_id) == "OFFERED"
    made = await desk.offer(await desk.request(), refuses_id, thinks_id)
    assert [one["driver_id"] for one in made["offers"]] == [str(refuses_id)]


async def test_repeated_rejection_has_no_second_effect(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    answers = await asyncio.gather(*(desk.reject(ride_id, driver_id, "busy") for _ in range(10)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert await rejections(desk, ride_id) == 1
    # Another reason, later: the first rejection stays.
    assert (await desk.reject(ride_id, driver_id, "unsafe")).json()["reason"] == "busy"
    assert len((await desk.timeline(ride_id))["steps"]) == 3


async def test_second_offer_can_be_rejected_again(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    await desk.reject(ride_id, driver_id)
    await desk.offer(ride_id, driver_id)
    assert (await desk.reject(ride_id, driver_id)).status_code == 200
    assert await rejections(desk, ride_id) == 2
    attempts = [(one["attempt"], one["response"]) for one in (await desk.timeline(ride_id))["offers"]]
    assert attempts == [(1, "REJECTED"), (2, "REJECTED")]


@pytest.mark.parametrize("ended", [False, True], ids=["not noticed yet", "ended by the timer"])
async def test_expired_offer_cannot_be_rejected(desk: Desk, ended: bool) -> None:
    ride_id, (driver_id,) = await desk.offered()
    await desk.let_lapse(ride_id)
    if ended:
        await desk.settle(ride_id)
    assert verdict(await desk.reject(ride_id, driver_id)) == (410, "offer_expired")
    assert await rejections(desk, ride_id) == 0


async def test_ride_of_another_driver_cannot_be_rejected(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id)
    assert verdict(await desk.reject(ride_id, loser_id)) == (409, "ride_already_accepted")


async def test_accepted_ride_cannot_be_rejected(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    answer = await desk.reject(ride_id, driver_id)
    assert verdict(answer) == (409, "ride_cannot_be_rejected")
    assert answer.json()["ride_status"] == "ACCEPTED"
    assert (await desk.read(ride_id))["driver_id"] == str(driver_id)


async def test_canceled_ride_cannot_be_rejected(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    await desk.cancel(ride_id, desk.operator)
    assert verdict(await desk.reject(ride_id, driver_id)) == (410, "offer_expired")


async def test_ride_without_an_offer_cannot_be_rejected(desk: Desk) -> None:
    ride_id, _ = await desk.offered()
    assert verdict(await desk.reject(ride_id, await desk.new_driver())) == (403, "offer_not_received")
    assert verdict(await desk.reject(uuid4(), await desk.new_driver())) == (404, "ride_not_found")


async def test_other_callers_cannot_reject_for_a_driver(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    for role in ("driver", "passenger"):
        answer = await desk.api.patch(
            f"/v1/rides/{ride_id}/reject", json={"driver_id": str(driver_id)}, headers=bearer(role)
        )
        assert verdict(answer) == (403, "forbidden")
    assert await desk.status(ride_id) == "OFFERED"


async def test_operator_can_reject_for_a_driver(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    answer = await desk.api.patch(
        f"/v1/rides/{ride_id}/reject", json={"driver_id": str(driver_id)}, headers=desk.operator
    )
    assert (answer.status_code, answer.json()["driver_id"]) == (200, str(driver_id))


async def test_offer_is_either_rejected_or_accepted(desk: Desk) -> None:
    for _ in range(5):
        ride_id, (driver_id,) = await desk.offered()
        accepted, rejected = await asyncio.gather(
            desk.accept(ride_id, driver_id), desk.reject(ride_id, driver_id)
        )
        assert sorted((accepted.status_code, rejected.status_code)) in ([200, 400], [200, 409])
        ride = await desk.read(ride_id)
        assert ride["status"] == ("ACCEPTED" if accepted.status_code == 200 else "SEARCHING")
