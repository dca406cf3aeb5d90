"""Invalid requests are refused with a code and change nothing."""

import json
from typing import Any
from uuid import uuid4

import httpx
import pytest

from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.rides.desk import SE, WAY, Desk
from tests.servers import on_one_stack

# These requests are refused before a server is used.
pytestmark = on_one_stack
PLACES = ["pickup_lat", "pickup_lon", "dropoff_lat", "dropoff_lon"]
TOO_FAR = {"pickup_lat": 90.0001, "pickup_lon": -180.0001, "dropoff_lat": -91, "dropoff_lon": 181}
NO_NUMBERS: list[Any] = ["here", None, True, [1], {}, "", "12.5"]
NOT_IDS = ["123", "not-an-id", "passenger123", "0198a8b2-3c00-7000-8000-00000000000g", "%00", "-1"]


def refused(answer: httpx.Response, *statuses: int) -> str:
    assert answer.status_code in statuses, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()["code"]


@pytest.mark.parametrize("path", ["/v1/rides", "/v1/quotes"])
@pytest.mark.parametrize("field", PLACES)
async def test_places_off_the_map_are_refused(desk: Desk, path: str, field: str) -> None:
    passenger = bearer()
    for value in (TOO_FAR[field], *NO_NUMBERS):
        answer = await desk.api.post(path, json=WAY | {field: value}, headers=passenger)
        assert refused(answer, 422) == "request_invalid", value
        assert answer.json()["errors"][0]["where"].startswith(f"body.{field}")
    assert (await desk.api.get("/v1/rides", headers=passenger)).json()["rides"] == []


@pytest.mark.parametrize("path", ["/v1/rides", "/v1/quotes"])
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e400"])
async def test_invalid_numbers_are_refused(desk: Desk, path: str, number: str) -> None:
    passenger = bearer()
    body = json.dumps(WAY).replace("-12.9777", number)
    headers = passenger | {"content-type": "application/json"}
    assert refused(await desk.api.post(path, content=body, headers=headers), 400, 422)
    assert (await desk.api.get("/v1/rides", headers=passenger)).json()["rides"] == []


@pytest.mark.parametrize("place", [(90, 180), (-90, -180), (0, 0), (-0.0, 180)])
async def test_places_at_the_edge_of_the_map_are_valid(desk: Desk, place: tuple[float, float]) -> None:
    way = SE | {"dropoff_lat": place[0], "dropoff_lon": place[1]}
    answer = await desk.api.post("/v1/rides", json=way, headers=bearer())
    assert answer.status_code == 201
    assert answer.json()["estimated_fare_cents"] > 0


@pytest.mark.parametrize("text", NOT_IDS)
async def test_invalid_id_is_refused(desk: Desk, text: str) -> None:
    driver, body = bearer("driver"), {"reason": "other"}
    requests = [
        desk.api.get(f"/v1/rides/{text}", headers=driver),
        desk.api.post(f"/rides/{text}/accept", json={}, headers=driver),
        desk.api.patch(f"/rides/{text}/reject", json={}, headers=driver),
        desk.api.post(f"/v1/rides/{text}/arrive", headers=driver),
        desk.api.post(f"/v1/rides/{text}/cancel", json=body, headers=driver),
        desk.api.post(f"/v1/rides/{text}/offers", json={"driver_ids": [str(uuid4())]}, headers=desk.operator),
        desk.api.get(f"/v1/rides/{text}/attempts", headers=desk.operator),
        desk.api.get(f"/drivers/{text}/active-ride", headers=driver),
        desk.api.get("/v1/rides", params={"before": text}, headers=driver),
    ]
    for answer in requests:
        refused(await answer, 400, 404, 422)


@pytest.mark.parametrize(
    "body",
    [
        {"driver_id": "123"},
        {"driver_id": 7},
        {"idempotency_key": ""},
        {"idempotency_key": "with a space"},
        {"idempotency_key": "x" * 256},
        {"idempotency_key": 7},
        {"idempotency_key": "ção"},
        {"unknown": "field"},
        {"ride_id": str(uuid4())},
        [],
        "accept",
        None,
    ],
)
async def test_invalid_accept_is_refused_and_not_recorded(desk: Desk, body: Any) -> None:
    ride_id, (driver_id,) = await desk.offered()
    answer = await desk.api.post(f"/rides/{ride_id}/accept", json=body, headers=bearer("driver", driver_id))
    assert refused(answer, 422) == "request_invalid"
    assert await desk.attempts(ride_id) == []
    assert await desk.status(ride_id) == "OFFERED"


@pytest.mark.parametrize("key", ["", "with a space", "x" * 256, "\x7f"])
async def test_invalid_key_header_is_refused_and_not_recorded(desk: Desk, key: str) -> None:
    ride_id, (driver_id,) = await desk.offered()
    answer = await desk.accept(ride_id, driver_id, **{"idempotency-key": key})
    refused(answer, 400, 422)
    assert await desk.attempts(ride_id) == []


async def test_body_over_the_limit_is_refused(desk: Desk, settings: Settings) -> None:
    ride_id, (driver_id,) = await desk.offered()
    driver = bearer("driver", driver_id)
    big = {"idempotency_key": "x" * settings.http.max_body_bytes}
    answer = await desk.api.post(f"/rides/{ride_id}/accept", json=big, headers=driver)
    assert refused(answer, 413) == "body_too_large"
    answer = await desk.api.post("/v1/rides", json=WAY | {"pickup_address": big}, headers=bearer())
    assert refused(answer, 413) == "body_too_large"
    assert await desk.attempts(ride_id) == []


@pytest.mark.parametrize(
    "change",
    [
        {"fare_cents": 1},
        {"estimated_fare_cents": 1},
        {"passenger_id": str(uuid4())},
        {"status": "ACCEPTED"},
        {"pickup_address": "x" * 301},
        {"pickup_address": "two\nlines"},
        {"pickup_address": "nul\x00"},
    ],
)
async def test_unknown_fields_are_refused(desk: Desk, change: dict[str, Any]) -> None:
    passenger = bearer()
    refused(await desk.api.post("/v1/rides", json=WAY | change, headers=passenger), 400, 422)
    assert (await desk.api.get("/v1/rides", headers=passenger)).json()["rides"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"driver_ids": []},
        {"driver_ids": ["123"]},
        {"driver_ids": [str(uuid4())], "ttl_seconds": 0},
        {"driver_ids": [str(uuid4())], "ttl_seconds": -1},
        {"driver_ids": [str(uuid4())], "ttl_seconds": 3601},
        {"driver_ids": [str(uuid4())], "ttl_seconds": "soon"},
        {"driver_ids": [str(uuid4())], "ttl_seconds": True},
        {"driver_ids": [str(uuid4())], "round": 2},
    ],
)
async def test_invalid_offer_is_refused(desk: Desk, body: dict[str, Any]) -> None:
    ride_id = await desk.request()
    answer = await desk.api.post(f"/v1/rides/{ride_id}/offers", json=body, headers=desk.operator)
    assert refused(answer, 422) == "request_invalid"
    assert await desk.status(ride_id) == "REQUESTED"


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("cancel", {}),
        ("cancel", {"reason": "because"}),
        ("cancel", {"reason": "other", "note": "x" * 301}),
        ("cancel", {"reason": "other", "canceled_by": "system"}),
        ("complete", {"distance_meters": -1}),
        ("complete", {"distance_meters": 1.5}),
        ("complete", {"distance_meters": True}),
        ("complete", {"distance_meters": 10**12}),
        ("complete", {"final_fare_cents": 1}),
    ],
)
async def test_invalid_cancel_or_complete_is_refused(desk: Desk, verb: str, body: dict[str, Any]) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("STARTED", ride_id, driver_id)
    answer = await desk.act(ride_id, verb, headers=bearer("driver", driver_id), json=body)
    assert refused(answer, 422) == "request_invalid"
    assert await desk.status(ride_id) == "STARTED"


async def test_id_of_another_driver_is_refused(desk: Desk) -> None:
    """In the body of an accept or a rejection, in a path, and on another driver's ride."""
    ride_id, driver_id = await desk.accepted()
    stranger = bearer("driver")
    named = {"driver_id": str(driver_id)}
    requests = {
        403: [
            desk.api.post(f"/rides/{ride_id}/accept", json=named, headers=stranger),
            desk.api.patch(f"/rides/{ride_id}/reject", json=named, headers=stranger),
            desk.api.get(f"/drivers/{driver_id}/active-ride", headers=stranger),
        ],
        404: [
            desk.act(ride_id, "arrive", headers=stranger),
            desk.act(ride_id, "start", headers=stranger),
            desk.act(ride_id, "complete", headers=stranger, json={}),
        ],
    }
    before = await desk.timeline(ride_id)
    for status, answers in requests.items():
        for answer in answers:
            refused(await answer, status)
    assert await desk.timeline(ride_id) == before
    assert len(await desk.attempts(ride_id)) == 1


async def test_key_of_another_driver_reveals_nothing(desk: Desk) -> None:
    ride_id, (winner_id, other_id) = await desk.offered(2)
    key = str(uuid4())
    won = await desk.accept(ride_id, winner_id, key)
    answer = await desk.accept(ride_id, other_id, key)
    assert refused(answer, 409) == "ride_already_accepted"
    assert won.json()["passenger_id"] not in answer.text
    kept = {one["driver_id"]: one["status"] for one in await desk.attempts(ride_id)}
    assert kept == {str(winner_id): "SUCCESS", str(other_id): "FAILED"}
