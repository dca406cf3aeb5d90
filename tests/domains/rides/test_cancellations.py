"""Canceling a ride and giving it up: allowed callers, reasons and states, and the result."""

import asyncio
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.domains.rides.model import MOVES, Actor
from catraca.domains.rides.trips.model import CANCEL_REASONS, CancelReason
from catraca.events import RideCancelled, RideReassigning
from tests.conftest import bearer
from tests.domains.rides.desk import Desk
from tests.servers import on_one_stack

REASONS = sorted({reason for reasons in CANCEL_REASONS.values() for reason in reasons})
BY_PEOPLE: tuple[Actor, ...] = ("passenger", "driver", "operator")


def verdict(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


class Ride:
    """A ride with its passenger and its driver."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.passenger_id = desk, uuid4()

    async def at(self, status: str) -> "Ride":
        self.id, (self.driver_id,) = await self.desk.offered(passenger_id=self.passenger_id)
        if status == "SEARCHING":
            await self.desk.reject(self.id, self.driver_id)
        elif status != "OFFERED":
            await self.desk.accept(self.id, self.driver_id)
            await self.desk.drive_to(status, self.id, self.driver_id)
        return self

    async def canceled_by(self, actor: Actor, reason: str) -> httpx.Response:
        headers = {
            "passenger": bearer("passenger", self.passenger_id),
            "driver": bearer("driver", self.driver_id),
            "operator": self.desk.operator,
        }
        return await self.desk.cancel(self.id, headers[actor], reason)


@pytest.mark.parametrize("actor", BY_PEOPLE)
async def test_cancel_reasons_depend_on_the_caller(desk: Desk, actor: Actor) -> None:
    """In ARRIVING every reason is possible; the refusal lists the allowed ones."""
    ride = await Ride(desk).at("ARRIVING")
    for reason in REASONS:
        if reason in CANCEL_REASONS[actor]:
            continue
        answer = await ride.canceled_by(actor, reason)
        assert verdict(answer) == (409, "cancel_reason_invalid")
        assert answer.json()["reasons"] == list(CANCEL_REASONS[actor])
    assert await desk.status(ride.id) == "ARRIVING"


@on_one_stack
@pytest.mark.parametrize(
    ("actor", "reason"), [(actor, reason) for actor in BY_PEOPLE for reason in CANCEL_REASONS[actor]]
)
async def test_cancel_reason_decides_the_next_status(desk: Desk, actor: Actor, reason: CancelReason) -> None:
    ride = await Ride(desk).at("ARRIVING")
    answer = await ride.canceled_by(actor, reason)
    gives_up = actor == "driver" and reason != "passenger_no_show"
    assert (answer.status_code, answer.json()["status"]) == (200, "SEARCHING" if gives_up else "CANCELED")
    step = (await desk.timeline(ride.id))["steps"][-1]
    assert (step["actor"], step["reason"]) == (actor, reason)
    (ended,) = (
        event for event in await desk.events(ride.id) if isinstance(event, RideCancelled | RideReassigning)
    )
    assert ended.reason == reason
    made = await desk.offer(await desk.request(), ride.driver_id)
    assert len(made["offers"]) == 1, "the driver is free"


@pytest.mark.parametrize("status", ["SEARCHING", "OFFERED", "ACCEPTED", "ARRIVING", "STARTED", "COMPLETED"])
@pytest.mark.parametrize("actor", ["passenger", "operator"])
async def test_ride_can_be_canceled_until_it_starts(desk: Desk, status: str, actor: Actor) -> None:
    ride = await Ride(desk).at(status)
    answer = await ride.canceled_by(actor, "other")
    if status == "STARTED" or "CANCELED" not in MOVES[status]:
        assert verdict(answer) == (409, "ride_move_not_allowed")
        assert answer.json()["ride_status"] == status
        return
    canceled = await desk.read(ride.id)
    assert (canceled["status"], canceled["canceled_by"], canceled["cancel_reason"]) == (
        "CANCELED",
        actor,
        "other",
    )
    driver = str(ride.driver_id) if status in ("ACCEPTED", "ARRIVING") else None
    assert canceled["driver_id"] == driver, "the driver of the ride is kept"
    responses = [one["response"] for one in (await desk.timeline(ride.id))["offers"]]
    assert responses == [{"SEARCHING": "REJECTED", "OFFERED": "CANCELED"}.get(status, "ACCEPTED")]
    again = await ride.canceled_by(actor, "other")
    assert verdict(again) == (409, "ride_move_not_allowed")


@pytest.mark.parametrize("status", ["ACCEPTED", "ARRIVING", "STARTED", "COMPLETED"])
async def test_driver_can_give_a_ride_up_until_it_starts(desk: Desk, status: str) -> None:
    ride = await Ride(desk).at(status)
    answer = await ride.canceled_by("driver", "unsafe")
    if status in ("STARTED", "COMPLETED"):
        assert verdict(answer) == (409, "ride_move_not_allowed")
        return
    given_up = await desk.read(ride.id)
    assert (given_up["status"], given_up["round"]) == ("SEARCHING", 2)
    assert given_up["driver_id"] is given_up["accepted_at"] is given_up["arrived_at"] is None
    # This driver cannot see the ride any more.
    assert verdict(await ride.canceled_by("driver", "unsafe")) == (404, "ride_not_found")


async def test_no_show_needs_an_arrived_driver(desk: Desk) -> None:
    ride = await Ride(desk).at("ACCEPTED")
    assert verdict(await ride.canceled_by("driver", "passenger_no_show")) == (409, "ride_move_not_allowed")
    await desk.drive_to("ARRIVING", ride.id, ride.driver_id)
    answer = await ride.canceled_by("driver", "passenger_no_show")
    assert answer.json()["status"] == "CANCELED"
    (sent,) = (event for event in await desk.events(ride.id) if isinstance(event, RideCancelled))
    assert (sent.cancelled_by, sent.driver_id) == ("driver", ride.driver_id)
    await desk.request(ride.passenger_id)


@pytest.mark.parametrize("role", ["passenger", "driver", "worker"])
async def test_other_callers_cannot_cancel(desk: Desk, role: str) -> None:
    ride_id, _ = await desk.accepted()
    for reason in ("other", "changed_plans"):
        assert verdict(await desk.cancel(ride_id, bearer(role), reason)) == (404, "ride_not_found")
    assert await desk.status(ride_id) == "ACCEPTED"


async def test_driver_with_only_an_offer_cannot_cancel(desk: Desk) -> None:
    ride = await Ride(desk).at("OFFERED")
    assert verdict(await ride.canceled_by("driver", "too_far")) == (404, "ride_not_found")


async def test_unknown_ride_cannot_be_canceled(desk: Desk) -> None:
    assert verdict(await desk.cancel(uuid4(), desk.operator)) == (404, "ride_not_found")


async def test_same_key_returns_the_same_answer(desk: Desk) -> None:
    ride = await Ride(desk).at("OFFERED")
    headers = bearer("passenger", ride.passenger_id) | {"idempotency-key": str(uuid4())}
    answers = [await desk.cancel(ride.id, headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content


async def test_simultaneous_cancellations_publish_one_event(desk: Desk) -> None:
    ride = await Ride(desk).at("ACCEPTED")
    answers = await asyncio.gather(
        ride.canceled_by("passenger", "changed_plans"), ride.canceled_by("operator", "operator_decision")
    )
    assert sorted(answer.status_code for answer in answers) == [200, 409]
    assert sum(isinstance(event, RideCancelled) for event in await desk.events(ride.id)) == 1


async def test_operator_cancellation_is_audited_and_its_note_hidden(desk: Desk) -> None:
    ride = await Ride(desk).at("ACCEPTED")
    await desk.act(
        ride.id,
        "cancel",
        headers=desk.operator,
        json={"reason": "unsafe", "note": "Chuva forte na orla."},
    )
    rows = await desk.sql("SELECT action FROM audit_log WHERE subject_id = $1 ORDER BY at", str(ride.id))
    assert [row["action"] for row in rows] == ["ride.offered", "ride.canceled"]
    (kept,) = await desk.sql("SELECT cancel_note FROM rides WHERE id = $1", ride.id)
    assert kept["cancel_note"] == "Chuva forte na orla."
    seen = await desk.api.get(f"/v1/rides/{ride.id}", headers=bearer("passenger", ride.passenger_id))
    assert "Chuva" not in seen.text


async def test_loser_can_get_an_offer_after_the_winner_gave_up(desk: Desk) -> None:
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    await desk.accept(ride_id, winner_id)
    await desk.give_up(ride_id, winner_id)
    for _ in range(2):  # never the driver who gave it up
        made = await desk.offer(ride_id, winner_id, loser_id)
        assert [UUID(one["driver_id"]) for one in made["offers"]] == [loser_id]
        assert made["offers"][0]["round"] == 2
        await desk.reject(ride_id, loser_id)
