"""Accepting a ride: one winner, and every attempt is recorded."""

from collections import Counter
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.domains.rides.acceptance.service import ACCEPTS
from catraca.platform.http.health import Health
from catraca.roles.api import build_app
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.rides.desk import WAY, Desk

PATHS = [(verb, path) for verb in ("POST", "PATCH") for path in ("/rides", "/v1/rides")]


async def test_one_of_a_hundred_drivers_gets_the_ride(desk: Desk) -> None:
    ride_id, drivers = await desk.offered(100)
    answers = await desk.accept_all(ride_id, drivers)
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 99}
    ride = await desk.read(ride_id)
    (won,) = (answer.json() for answer in answers if answer.status_code == 200)
    assert (ride["status"], ride["driver_id"]) == ("ACCEPTED", won["driver_id"])
    attempts = await desk.attempts(ride_id)
    assert Counter(attempt["status"] for attempt in attempts) == {"SUCCESS": 1, "FAILED": 99}
    assert {attempt["failure_reason"] for attempt in attempts} == {None, "ride_already_accepted"}
    assert await desk.event_keys(ride_id) == ["ride.requested", "ride.accepted"]
    counts = Counter(type(event).__name__ for event in await desk.events(ride_id))
    assert (counts["DriverAccepted"], counts["OfferCanceled"]) == (1, 99)


async def test_ride_from_request_to_completion(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered(1)
    driver = bearer("driver", driver_id)
    assert (await desk.read(ride_id, driver))["seen_as"] == "offered"
    first = await desk.accept(ride_id, driver_id, "k")
    again = await desk.accept(ride_id, driver_id, "k")
    assert first.status_code == 200
    assert first.content == again.content
    other = await desk.accept(ride_id, driver_id, "another")
    assert (other.status_code, other.json()["accepted_by_you"]) == (409, True)
    for verb in ("arrive", "start"):
        assert (await desk.act(ride_id, verb, headers=driver)).status_code == 200
    completed = await desk.act(ride_id, "complete", headers=driver, json={})
    assert completed.json()["final_fare_cents"] == completed.json()["estimated_fare_cents"]
    assert UUID(completed.json()["ride_id"]) == ride_id


@pytest.mark.parametrize(("verb", "path"), PATHS)
async def test_both_verbs_and_both_paths_accept(desk: Desk, verb: str, path: str) -> None:
    passenger_id = uuid4()
    ride_id, (driver_id,) = await desk.offered(passenger_id=passenger_id)
    answer = await desk.api.request(
        verb, f"{path}/{ride_id}/accept", json={}, headers=bearer("driver", driver_id)
    )
    assert answer.status_code == 200
    won = answer.json()
    assert won.pop("accepted_at") == (await desk.read(ride_id))["accepted_at"]
    assert won == WAY | {
        "ride_id": str(ride_id),
        "status": "ACCEPTED",
        "driver_id": str(driver_id),
        "passenger_id": str(passenger_id),
    }


@pytest.mark.parametrize(
    ("body", "headers", "kept"),
    [
        ({"idempotency_key": "in-the-body"}, {}, "in-the-body"),
        ({}, {"idempotency-key": "in-the-header"}, "in-the-header"),
        ({"idempotency_key": "in-both"}, {"idempotency-key": "in-both"}, "in-both"),
    ],
)
async def test_key_can_be_in_the_body_the_header_or_both(
    desk: Desk, body: dict[str, str], headers: dict[str, str], kept: str
) -> None:
    ride_id, (driver_id,) = await desk.offered()
    for _ in range(2):
        answer = await desk.api.post(
            f"/rides/{ride_id}/accept", json=body, headers=bearer("driver", driver_id) | headers
        )
        assert answer.status_code == 200
    (attempt,) = await desk.attempts(ride_id)
    assert attempt["idempotency_key"] == kept


async def test_key_in_the_body_takes_precedence(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    answer = await desk.accept(ride_id, driver_id, "one", **{"idempotency-key": "two"})
    assert answer.status_code == 200
    assert [attempt["idempotency_key"] for attempt in await desk.attempts(ride_id)] == ["one"]


async def test_attempts_without_a_key_count_as_one_per_offer(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    first, again = [await desk.accept(ride_id, driver_id) for _ in range(2)]
    assert (first.status_code, first.content) == (200, again.content)
    (attempt,) = await desk.attempts(ride_id)
    assert attempt["idempotency_key"] == f"offer:{attempt['offer_id']}"


async def test_repeated_attempts_at_once_have_one_answer(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    answers = await desk.accept_all(ride_id, [driver_id] * 60)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len(await desk.attempts(ride_id)) == 1
    assert (await desk.event_keys(ride_id)).count("ride.accepted") == 1


async def test_attempt_records_request_agent_and_address(desk: Desk) -> None:
    ride_id, (driver_id,) = await desk.offered()
    headers = {"x-request-id": "seen-in-the-log", "user-agent": "Motorista/4.2 " + "x" * 300}
    await desk.accept(ride_id, driver_id, "k", **headers)
    (attempt,) = await desk.attempts(ride_id)
    assert attempt["request_id"] == "seen-in-the-log"
    assert attempt["user_agent"] == headers["user-agent"][:200]
    assert attempt["ip_address"] == "127.0.0.1"
    assert attempt["actor_id"] == attempt["driver_id"] == str(driver_id)
    assert (attempt["status"], attempt["ride_status"]) == ("SUCCESS", "ACCEPTED")


async def test_caller_address_is_stored_without_its_zone(desk: Desk, parts: Parts) -> None:
    """Sockets add the interface to link-local addresses; the type `inet` has no such zone."""
    ride_id, (driver_id,) = await desk.offered()
    transport = httpx.ASGITransport(app=build_app(parts, Health()), client=("fe80::1%eth0", 4321))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        answer = await Desk(client, desk.database).accept(ride_id, driver_id)
    assert answer.status_code == 200
    assert (await desk.attempts(ride_id))[0]["ip_address"] == "fe80::1"


@pytest.mark.parametrize("role", ["operator", "service"])
async def test_operators_and_services_can_accept_for_a_driver(desk: Desk, role: str) -> None:
    ride_id, (driver_id,) = await desk.offered()
    actor_id = uuid4()
    answer = await desk.api.post(
        f"/v1/rides/{ride_id}/accept", json={"driver_id": str(driver_id)}, headers=bearer(role, actor_id)
    )
    assert (answer.status_code, answer.json()["driver_id"]) == (200, str(driver_id))
    (attempt,) = await desk.attempts(ride_id)
    assert (attempt["driver_id"], attempt["actor_id"]) == (str(driver_id), str(actor_id))
    step = (await desk.timeline(ride_id))["steps"][-1]
    assert (step["to_status"], step["actor"], step["actor_id"]) == ("ACCEPTED", "operator", str(actor_id))


@pytest.mark.parametrize("role", ["driver", "passenger", "worker"])
async def test_other_callers_cannot_accept_for_a_driver(desk: Desk, role: str) -> None:
    ride_id, (driver_id,) = await desk.offered()
    answer = await desk.api.post(
        f"/rides/{ride_id}/accept", json={"driver_id": str(driver_id)}, headers=bearer(role)
    )
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert await desk.attempts(ride_id) == []
    assert await desk.status(ride_id) == "OFFERED"


async def test_operator_without_a_driver_id_is_refused(desk: Desk) -> None:
    ride_id, _ = await desk.offered()
    answer = await desk.api.post(f"/rides/{ride_id}/accept", json={}, headers=desk.operator)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_attempts_are_paged_in_order_of_arrival(desk: Desk) -> None:
    ride_id, drivers = await desk.offered(5)
    for driver_id in drivers:
        await desk.accept(ride_id, driver_id)
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = (
            await desk.api.get(
                f"/v1/rides/{ride_id}/attempts", params={"limit": 2} | after, headers=desk.operator
            )
        ).json()
        seen += [attempt["driver_id"] for attempt in page["attempts"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == [str(driver_id) for driver_id in drivers]


async def test_attempt_outcomes_are_counted(desk: Desk) -> None:
    outcomes = ("accepted", "repeated", "ride_already_accepted", "offer_not_received", "ride_not_found")

    def counted() -> list[float]:
        return [ACCEPTS.labels(outcome)._value.get() for outcome in outcomes]

    before = counted()
    ride_id, (winner_id, loser_id) = await desk.offered(2)
    for driver_id in (winner_id, winner_id, loser_id, await desk.new_driver()):
        await desk.accept(ride_id, driver_id)
    await desk.accept(uuid4(), winner_id)
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [1, 1, 1, 1, 1]
    metrics = (await desk.api.get("/metrics")).text
    assert 'catraca_ride_accepts_total{outcome="accepted"}' in metrics
    assert "catraca_ride_accept_seconds_bucket" in metrics
