"""Requesting rides: one at a time per passenger; and listing them."""

import asyncio
from collections import Counter
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from tests.conftest import bearer
from tests.domains.rides.desk import SE, WAY, Desk
from tests.servers import on_one_stack

pytestmark = on_one_stack


async def test_new_ride_has_the_requested_values(desk: Desk) -> None:
    passenger_id = uuid4()
    body = WAY | {"pickup_address": "Praça da Sé, 3", "dropoff_address": "Farol da Barra"}
    answer = await desk.api.post("/v1/rides", json=body, headers=bearer("passenger", passenger_id))
    assert answer.status_code == 201
    ride = answer.json()
    assert body.items() <= ride.items()
    assert (ride["status"], ride["round"], ride["seen_as"]) == ("REQUESTED", 1, "passenger")
    assert ride["passenger_id"] == str(passenger_id)
    assert ride["driver_id"] is ride["accepted_at"] is ride["final_fare_cents"] is None
    assert ride["deadline_at"] > ride["created_at"]
    assert await desk.read(UUID(ride["ride_id"]), bearer("passenger", passenger_id)) == ride


async def test_quoted_fare_is_the_fare_of_the_ride(desk: Desk) -> None:
    quoted = (await desk.api.post("/v1/quotes", json=WAY, headers=bearer())).json()
    ride_id, driver_id = await desk.accepted()
    ride = await desk.read(ride_id)
    for field in ("distance_meters", "duration_seconds"):
        assert ride[field] == quoted[field]
    assert ride["estimated_fare_cents"] == quoted["fare_cents"]
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    assert (await desk.read(ride_id))["final_fare_cents"] == quoted["fare_cents"]


async def test_fare_without_destination_is_by_distance_driven(desk: Desk) -> None:
    ride_id, driver_id = await desk.request(way=SE), await desk.new_driver()
    assert (await desk.read(ride_id))["estimated_fare_cents"] is None
    await desk.offer(ride_id, driver_id)
    await desk.accept(ride_id, driver_id)
    await desk.drive_to("STARTED", ride_id, driver_id)
    driver = bearer("driver", driver_id)
    answer = await desk.act(ride_id, "complete", headers=driver, json={})
    assert (answer.status_code, answer.json()["code"]) == (422, "distance_missing")
    assert await desk.status(ride_id) == "STARTED"
    await desk.start_earlier(ride_id, timedelta(minutes=20))
    completed = await desk.act(ride_id, "complete", headers=driver, json={"distance_meters": 10_000})
    # 5.00 base, 1.80 per kilometre and 0.30 per minute; the requests take less than a minute.
    assert completed.json()["final_fare_cents"] in range(2900, 2930)


async def test_quoted_fare_ignores_the_distance_driven(desk: Desk) -> None:
    ride_id, driver_id = await desk.accepted()
    await desk.drive_to("STARTED", ride_id, driver_id)
    completed = await desk.act(
        ride_id, "complete", headers=bearer("driver", driver_id), json={"distance_meters": 1_000_000}
    )
    assert completed.json()["final_fare_cents"] == completed.json()["estimated_fare_cents"]


async def test_second_ride_is_refused_with_the_id_of_the_first(desk: Desk) -> None:
    passenger_id = uuid4()
    ride_id, (driver_id,) = await desk.offered(passenger_id=passenger_id)
    passenger = bearer("passenger", passenger_id)
    for status in ("OFFERED", "ACCEPTED", "ARRIVING", "STARTED"):
        if status == "ACCEPTED":
            await desk.accept(ride_id, driver_id)
        elif status != "OFFERED":
            await desk.drive_to(status, ride_id, driver_id)
        answer = await desk.api.post("/v1/rides", json=WAY, headers=passenger)
        assert (answer.status_code, answer.json()["code"]) == (409, "ride_already_open")
        assert answer.json()["ride_id"] == str(ride_id)
    await desk.drive_to("COMPLETED", ride_id, driver_id)
    assert await desk.request(passenger_id) != ride_id


async def test_simultaneous_requests_make_one_ride(desk: Desk) -> None:
    passenger = bearer("passenger", uuid4())
    answers = await asyncio.gather(
        *(desk.api.post("/v1/rides", json=WAY, headers=passenger) for _ in range(20))
    )
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 19}
    (ride,) = (await desk.api.get("/v1/rides", headers=passenger)).json()["rides"]
    assert {answer.json()["ride_id"] for answer in answers} == {ride["ride_id"]}
    assert await desk.event_keys(UUID(ride["ride_id"])) == ["ride.requested"]


async def test_repeated_request_with_a_key_is_one_ride(desk: Desk) -> None:
    headers = bearer("passenger", uuid4()) | {"idempotency-key": str(uuid4())}
    answers = await asyncio.gather(
        *(desk.api.post("/v1/rides", json=WAY, headers=headers) for _ in range(10))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1


async def test_rides_are_for_passengers(desk: Desk) -> None:
    for role in ("driver", "operator", "service", "worker"):
        answer = await desk.api.post("/v1/rides", json=WAY, headers=bearer(role))
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("half", [{"dropoff_lat": -13.0}, {"dropoff_lon": -38.5}])
async def test_half_a_destination_is_refused(desk: Desk, half: dict[str, float]) -> None:
    answer = await desk.api.post("/v1/rides", json=SE | half, headers=bearer())
    assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "place_incomplete")


async def canceled_ride(desk: Desk, passenger_id: UUID) -> UUID:
    ride_id = await desk.request(passenger_id)
    await desk.cancel(ride_id, desk.operator)  # the passenger would have to pause
    return ride_id


async def test_rides_are_listed_newest_first_a_page_at_a_time(desk: Desk) -> None:
    passenger_id = uuid4()
    made = [await canceled_ride(desk, passenger_id) for _ in range(5)]
    seen: list[UUID] = []
    before: dict[str, str] = {}
    while True:
        page = (
            await desk.api.get(
                "/v1/rides", params={"limit": 2} | before, headers=bearer("passenger", passenger_id)
            )
        ).json()
        seen += [UUID(ride["ride_id"]) for ride in page["rides"]]
        if page["next"] is None:
            break
        before = {"before": page["next"]}
    assert seen == made[::-1]


async def test_list_can_be_filtered_by_status(desk: Desk) -> None:
    passenger_id = uuid4()
    canceled, open_ride = await canceled_ride(desk, passenger_id), await desk.request(passenger_id)
    for statuses, rides in (
        (["CANCELED"], [canceled]),
        (["REQUESTED"], [open_ride]),
        (["REQUESTED", "CANCELED"], [open_ride, canceled]),
        (["PAID"], []),
    ):
        answer = await desk.api.get(
            "/v1/rides", params={"status": statuses}, headers=bearer("passenger", passenger_id)
        )
        assert [UUID(ride["ride_id"]) for ride in answer.json()["rides"]] == rides
    wrong = await desk.api.get("/v1/rides", params={"status": "LOST"}, headers=desk.operator)
    assert wrong.status_code == 422


async def test_list_shows_own_rides_and_all_to_operators(desk: Desk) -> None:
    passenger_id = uuid4()
    ride_id, driver_id = await desk.accepted(passenger_id)
    await desk.offered()
    for headers in (bearer("passenger", passenger_id), bearer("driver", driver_id)):
        listed = (await desk.api.get("/v1/rides", headers=headers)).json()["rides"]
        assert [UUID(ride["ride_id"]) for ride in listed] == [ride_id]
    all_rides = (await desk.api.get("/v1/rides", headers=desk.operator)).json()["rides"]
    assert len(all_rides) > 1
    assert (await desk.api.get("/v1/rides", headers=bearer("driver"))).json()["rides"] == []
