"""Pings: accepted ones move the driver, timely ones prove presence, rejected ones have a reason."""

import asyncio
import math
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from tests.conftest import bearer
from tests.domains.location.town import LAT, LNG, STEP, Town, spot
from tests.support.http import served

SECOND = timedelta(seconds=1)


async def place_of(town: Town, driver_id: UUID) -> tuple[float, float] | None:
    """The driver's place in the index, rounded to metres."""
    found = await town.redis.command("GEOPOS", "catraca:location:geo", str(driver_id))
    (place,) = found  # type: ignore[misc]
    return place and (round(float(place[1]), 4), round(float(place[0]), 4))


async def seen(town: Town, driver_id: UUID) -> float:
    score = await town.redis.command("ZSCORE", "catraca:location:seen", str(driver_id))
    assert isinstance(score, float)
    return score


async def test_ping_moves_the_driver(town: Town) -> None:
    driver_id = await town.new_driver()
    answer = await town.ping(driver_id, spot(1))
    assert answer == {"accepted": 1, "rejected": [], "kept_in": "redis"}
    assert await place_of(town, driver_id) == (round(LAT + STEP, 4), LNG)


async def test_list_is_checked_in_the_order_of_times(town: Town) -> None:
    driver_id = await town.new_driver(at=-50 * SECOND)
    answer = await town.ping(
        driver_id,
        spot(3, at=-10 * SECOND),
        spot(2, at=-20 * SECOND),
        spot(0, at=-90 * SECOND),
        spot(0, at=60 * SECOND),
        spot(4, at=-5 * SECOND, accuracy_meters=900),
        spot(400, at=-4 * SECOND),
        spot(4, at=-3 * SECOND),
    )
    assert answer["accepted"] == 3
    assert answer["rejected"] == [
        {"index": 2, "code": "stale"},
        {"index": 3, "code": "future_dated"},
        {"index": 4, "code": "imprecise"},
        {"index": 5, "code": "impossible"},
    ]
    assert await place_of(town, driver_id) == (round(LAT + 4 * STEP, 4), LNG)


async def test_late_ping_does_not_move_the_driver_back(town: Town) -> None:
    driver_id = await town.new_driver(at=-50 * SECOND)
    await town.ping(driver_id, spot(2, at=-10 * SECOND))
    answer = await town.ping(driver_id, spot(1, at=-20 * SECOND))
    assert answer["rejected"] == [{"index": 0, "code": "out_of_order"}]
    assert await place_of(town, driver_id) == (round(LAT + 2 * STEP, 4), LNG)


async def test_repeated_ping_changes_nothing(town: Town) -> None:
    driver_id = await town.new_driver(at=-50 * SECOND)
    sent = spot(2, at=-10 * SECOND)
    first, again = await town.ping(driver_id, sent), await town.ping(driver_id, sent)
    assert first == again


async def test_impossible_ping_keeps_place_and_presence(town: Town) -> None:
    driver_id = await town.new_driver()
    before = await seen(town, driver_id)
    for place in (spot(300), spot(0, accuracy_meters=5000)):
        assert (await town.ping(driver_id, place))["accepted"] == 0
    assert await place_of(town, driver_id) == (round(LAT, 4), LNG)
    assert await seen(town, driver_id) > before


async def test_untimely_ping_does_not_prove_presence(town: Town) -> None:
    driver_id = await town.new_driver()
    before = await seen(town, driver_id)
    for moment in (-90 * SECOND, 90 * SECOND):
        assert (await town.ping(driver_id, spot(at=moment)))["accepted"] == 0
    assert await seen(town, driver_id) == before


async def test_two_processes_agree_on_the_last_ping(town: Town) -> None:
    """Each process remembers another last ping."""
    driver_id = await town.new_driver(at=-50 * SECOND)
    async with served(town.parts) as other, other.client() as client:
        for number in range(1, 9):
            sent = spot(number, at=(number - 40) * SECOND)
            here = town.api if number % 2 else client
            path = f"/v1/location/drivers/{driver_id}/pings"
            answer = await here.post(path, json=sent, headers=bearer("driver", driver_id))
            assert answer.json()["accepted"] == 1
        late = await town.ping(driver_id, spot(7, at=-33 * SECOND))
        assert late["rejected"] == [{"index": 0, "code": "out_of_order"}]
    assert await place_of(town, driver_id) == (round(LAT + 8 * STEP, 4), LNG)


async def test_concurrent_pings_leave_the_newest(town: Town) -> None:
    driver_id = await town.new_driver(at=-58 * SECOND)
    sent = [spot(number / 10, at=(number - 50) * SECOND) for number in range(50)]
    answers = await asyncio.gather(*(town.ping(driver_id, one) for one in sent))
    assert {code["code"] for answer in answers for code in answer["rejected"]} <= {"out_of_order"}
    assert await place_of(town, driver_id) == (round(LAT + 4.9 * STEP, 4), LNG)


async def test_ping_of_an_offline_driver_is_refused(town: Town) -> None:
    driver_id = await town.new_driver()
    await town.go(driver_id, online=False)
    answer = await town.try_to_ping(driver_id, spot())
    assert (answer.status_code, answer.json()["code"]) == (409, "driver_offline")
    assert await place_of(town, driver_id) is None
    assert await town.nearby_ids(all=True) == []


async def test_ping_restores_a_driver_missing_in_the_index(town: Town) -> None:
    """Redis was down when the driver went online; the index is complete otherwise."""
    driver_id = await town.new_driver()
    await town.redis.command("ZREM", "catraca:location:seen", str(driver_id))
    await town.redis.command("ZREM", "catraca:location:geo", str(driver_id))
    assert await town.nearby_ids() == []
    assert (await town.ping(driver_id))["accepted"] == 1
    assert await town.nearby_ids() == [driver_id]


async def test_gateway_sends_pings_of_many_drivers(town: Town) -> None:
    first, second, gone = [await town.new_driver(at=-50 * SECOND) for _ in range(3)]
    await town.go(gone, online=False)
    sent = [
        {"driver_id": str(first), **spot(1, at=-2 * SECOND)},
        {"driver_id": str(second), **spot(2, at=-90 * SECOND)},
        {"driver_id": str(gone), **spot(1)},
        {"driver_id": str(second), **spot(3)},
        {"driver_id": str(first), **spot(2, at=-SECOND)},
        {"driver_id": str(uuid4()), **spot(2)},
    ]
    answer = await town.api.post("/v1/location/pings", json=sent, headers=bearer("service"))
    assert answer.json() == {
        "accepted": 3,
        "rejected": [
            {"index": 1, "code": "stale"},
            {"index": 2, "code": "offline"},
            {"index": 5, "code": "offline"},
        ],
        "kept_in": "redis",
    }
    assert await place_of(town, first) == (round(LAT + 2 * STEP, 4), LNG)
    assert await place_of(town, second) == (round(LAT + 3 * STEP, 4), LNG)


@pytest.mark.parametrize(
    "sent",
    [
        {"lat": 90.5, "lng": 0},
        {"lat": 0, "lng": -180.5},
        {"lat": "0", "lng": 0},
        {"lat": None, "lng": 0},
        {"lng": 0},
        {"lat": 0, "lng": 0, "at": "yesterday"},
        {"lat": 0, "lng": 0, "at": "2031-05-30T14:00:00"},
        {"lat": 0, "lng": 0, "at": 1_900_000_000},
        {"lat": 0, "lng": 0, "accuracy_meters": -1},
        {"lat": 0, "lng": 0, "colour": "red"},
        [],
        [{"lat": 0, "lng": 0}] * 101,
        [{"lat": 0, "lng": 0}, {"lat": 91, "lng": 0}],
        "here",
    ],
)
async def test_malformed_ping_is_refused(town: Town, sent: object) -> None:
    driver_id = await town.new_driver()
    before = await seen(town, driver_id)
    path = f"/v1/location/drivers/{driver_id}/pings"
    answer = await town.api.post(path, json=sent, headers=bearer("driver", driver_id))
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
    assert (await seen(town, driver_id), await place_of(town, driver_id)) == (before, (round(LAT, 4), LNG))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_non_finite_number_is_refused(town: Town, number: str) -> None:
    driver_id = await town.new_driver()
    answer = await town.api.post(
        f"/v1/location/drivers/{driver_id}/pings",
        content=f'{{"lat": {number}, "lng": 0}}',
        headers=bearer("driver", driver_id) | {"content-type": "application/json"},
    )
    assert answer.status_code in (400, 422)
    assert answer.json()["code"] in ("body_malformed", "request_invalid")
    assert not math.isnan((await town.nearby())["drivers"][0]["lat"])


async def test_too_large_body_is_refused(town: Town) -> None:
    sent = [{"driver_id": str(uuid4()), **spot(at=SECOND)} for _ in range(700)]
    answer = await town.api.post("/v1/location/pings", json=sent, headers=bearer("service"))
    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    short = [{"driver_id": "0" * 32, "lat": 0, "lng": 0}] * 501
    answer = await town.api.post("/v1/location/pings", json=short, headers=bearer("service"))
    assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")


async def test_other_callers_cannot_ping_or_set_status(town: Town) -> None:
    driver_id = await town.new_driver()
    before = await seen(town, driver_id)
    for headers in (bearer("driver"), bearer("passenger", driver_id), bearer("worker")):
        for answer in (
            await town.try_to_ping(driver_id, spot(1), headers=headers),
            await town.try_to_go(driver_id, headers, online=False),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert await seen(town, driver_id) == before
    assert await town.nearby_ids() == [driver_id]


async def test_malformed_id_is_refused(town: Town) -> None:
    for method, path in (("POST", "pings"), ("PUT", "status"), ("POST", "lock"), ("DELETE", "lock")):
        url = f"/v1/location/drivers/not-an-id/{path}"
        answer = await town.api.request(method, url, json={}, headers=bearer("service"))
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid")
