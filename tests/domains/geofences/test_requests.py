"""Requests in a community: a ride with a home driver, else one confirmation until it expires."""

import asyncio
import json
import re
from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from catraca.domains import communities
from catraca.domains.communities.service import change_community
from catraca.domains.location import store as index
from catraca.domains.location.nearby import service as nearby
from tests.conftest import bearer
from tests.domains.geofences.village import FENCE_METERS, OUTSIDE_METERS, PATH, Village, square

MESSAGE = "Nenhum motorista disponível na sua comunidade. Confirme para buscar motoristas de outras áreas."


def seconds_between(row: dict[str, datetime]) -> float:
    return (row["expires_at"] - row["created_at"]).total_seconds()


async def test_request_without_a_driver_needs_confirmation(village: Village) -> None:
    passenger_id = uuid4()
    answer = await village.request(passenger_id)
    assert answer.status_code == 202, answer.text
    body = answer.json()
    assert list(body) == [
        *("success", "requiresConfirmation", "confirmationToken", "expiresAt", "ttlMinutes", "message"),
        "changes",
    ]
    assert (body["success"], body["requiresConfirmation"]) == (False, True)
    assert re.fullmatch(r"[0-9a-f]{64}", body["confirmationToken"])
    assert '"ttlMinutes":5,' in answer.text, "a whole number, as in the contract"
    assert body["message"] == MESSAGE
    confirmation = await village.confirmation(body["confirmationToken"])
    assert datetime.fromisoformat(body["expiresAt"]) == confirmation["expires_at"]
    assert round(seconds_between(confirmation), 3) == 300
    assert await village.rides_of(passenger_id) == [], "no ride exists before the confirmation"


async def test_confirmation_message_in_english(village: Village) -> None:
    answer = await village.post(uuid4(), {"accept-language": "en"}, **village.body())
    assert answer.headers["content-language"] == "en"
    assert answer.json()["message"] == (
        "No driver is available in your community. Confirm to look for drivers from other areas."
    )


async def test_repeated_request_gets_the_same_confirmation(village: Village) -> None:
    passenger_id = uuid4()
    first, second = await village.request(passenger_id), await village.request(passenger_id)
    assert (second.status_code, second.text) == (202, first.text)
    twin = await village.town.api.post(
        "/v1/governance/ride/request",
        json=village.body(),
        headers=bearer("passenger", passenger_id) | {"accept-language": "pt-BR"},
    )
    assert (twin.status_code, twin.text) == (202, first.text), "the other path, without the passenger's id"


async def test_different_request_gets_another_confirmation(village: Village) -> None:
    passenger_id = uuid4()
    tokens = [
        await village.request_token(passenger_id),
        await village.request_token(passenger_id, price=15.51),
        await village.request_token(passenger_id, price=None),
        await village.request_token(passenger_id, origin=None),
        await village.request_token(passenger_id, destination="Outro"),
        await village.request_token(passenger_id, passengerLat=village.lat + 0.001),
        await village.request_token(passenger_id, destinationLat=village.lat, destinationLng=village.lng),
        await village.request_token(uuid4()),
    ]
    assert len(set(tokens)) == len(tokens)


async def test_concurrent_requests_get_one_confirmation(village: Village) -> None:
    passenger_id = uuid4()
    answers = await asyncio.gather(*(village.request(passenger_id) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    rows = await village.sql("SELECT FROM ride_confirmations WHERE passenger_id = $1", passenger_id)
    assert len(rows) == 1


async def test_request_after_expiry_gets_a_new_confirmation(village: Village) -> None:
    passenger_id = uuid4()
    first = await village.request_token(passenger_id)
    await village.age(first)
    second = await village.request_token(passenger_id)
    await village.age(second)
    await village.expire(second)
    third = await village.request_token(passenger_id)
    assert len({first, second, third}) == 3
    assert [(await village.confirmation(one))["expired_at"] is None for one in (first, second, third)] == [
        *(False, False, True)
    ]


async def test_community_sets_its_own_confirmation_time(village: Village) -> None:
    quick = await Village.create(village.town, confirmation_ttl_seconds=90)
    body = (await quick.request(uuid4())).json()
    assert body["ttlMinutes"] == 1.5
    assert round(seconds_between(await quick.confirmation(body["confirmationToken"])), 3) == 90
    async with village.with_settings(confirmation_ttl=timedelta(seconds=30)) as elsewhere:
        assert (await elsewhere.request(uuid4())).json()["ttlMinutes"] == 0.5, (
            "the setting, without a rule of the community"
        )


async def test_request_with_a_home_driver_creates_a_ride(village: Village) -> None:
    await village.add_driver(based=True, north_meters=OUTSIDE_METERS)
    passenger_id = uuid4()
    answer = await village.request(passenger_id)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert list(body) == ["success", "rideId", "ride", "message"]
    assert (body["success"], body["message"]) == (True, "Corrida criada com sucesso")
    (ride_id,) = await village.rides_of(passenger_id)
    ride = body["ride"]
    assert body["rideId"] == ride["id"] == str(ride_id)
    assert (ride["type"], ride["tier"], ride["status"]) == ("comunidade", "home", "REQUESTED")
    assert (ride["communityId"], ride["passengerId"]) == (str(village.community.id), str(passenger_id))
    assert (ride["origin"], ride["destination"], ride["price"]) == ("Origem", "Destino", 15.5)
    read = await village.town.rides.read(ride_id)
    assert (read["type"], read["community_id"], read["tier"]) == (
        *("comunidade", str(village.community.id), "home"),
    )


async def test_driver_inside_the_fence_is_a_home_driver(village: Village) -> None:
    driver_id = await village.add_driver(north_meters=OUTSIDE_METERS)
    assert (await village.request(uuid4())).status_code == 202
    await village.sql(
        "INSERT INTO driver_communities (driver_id, community_id, inside, since, seen_at)"
        " VALUES ($1, $2, true, now(), now())"
        " ON CONFLICT (driver_id, community_id) DO UPDATE SET inside = true",
        driver_id,
        village.community.id,
    )
    assert (await village.request(uuid4())).status_code == 201


async def test_home_driver_is_found_among_many_members(
    village: Village, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More members than one call to Redis and one batch of the search take."""
    monkeypatch.setattr(index, "MAX_DRIVERS_PER_CALL", 2)
    monkeypatch.setattr(nearby, "SPARE", 0)
    for number in range(5):
        await village.town.drive(await village.add_driver(based=True, north_meters=10 * number))
    assert (await village.request(uuid4())).status_code == 202, "all of them are busy"
    await village.add_driver(based=True, north_meters=OUTSIDE_METERS)
    assert (await village.request(uuid4())).status_code == 201


async def test_passenger_is_never_the_driver(village: Village) -> None:
    passenger_id = await village.add_driver(based=True)
    assert (await village.request(passenger_id)).status_code == 202


async def test_busy_home_driver_is_not_available(village: Village) -> None:
    driver_id = await village.add_driver(based=True)
    await village.town.drive(driver_id)
    assert (await village.request(uuid4())).status_code == 202


async def test_normal_ride_ignores_fences(village: Village) -> None:
    passenger_id = uuid4()
    answer = await village.request(passenger_id, type="normal")
    assert answer.status_code == 201, answer.text
    ride = answer.json()["ride"]
    assert (ride["type"], ride["communityId"], ride["tier"], ride["fareCents"]) == (
        "normal",
        None,
        None,
        None,
    )
    nowhere = await village.request(uuid4(), type="normal", passengerLat=village.lat + 0.5)
    assert nowhere.status_code == 201, nowhere.text


async def test_disabled_geofences_create_normal_rides(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    async with village.with_settings(enable_geofence=False) as disabled:
        answer = await disabled.request(uuid4())
        assert answer.status_code == 201, answer.text
        assert (answer.json()["ride"]["type"], answer.json()["ride"]["tier"]) == ("normal", None)
        assert (await disabled.request(uuid4(), passengerLat=village.lat + 0.5)).status_code == 201
        confirmed = await disabled.confirm(passenger_id, token)
        assert confirmed.status_code == 201, "an issued token still confirms"
        assert confirmed.json()["ride"]["tier"] == "open"


async def test_place_outside_all_communities_is_refused(village: Village) -> None:
    answer = await village.request(uuid4(), passengerLat=village.lat + 0.5)
    assert (answer.status_code, answer.json()["code"]) == (422, "no_community_here")
    assert 'tipo "normal"' in answer.json()["detail"]


async def test_retired_community_is_not_found(village: Village) -> None:
    retired = communities.Rules(name="Vila", retired=True)
    fence = json.dumps(square(village.lat, village.lng))
    async with village.town.parts.database.transaction() as db:
        await change_community(
            db, village.community.id, retired, fence, version=village.community.version, by=None
        )
    assert (await village.request(uuid4())).json()["code"] == "no_community_here"


async def test_ride_without_fallback_waits_for_home_drivers(village: Village) -> None:
    patient = await Village.create(village.town, fallback=())
    await patient.add_driver(north_meters=OUTSIDE_METERS)
    answer = await patient.request(uuid4())
    assert answer.status_code == 201, answer.text
    assert answer.json()["ride"]["tier"] == "home"


async def test_smallest_of_nested_fences_is_home(village: Village) -> None:
    around = await village.add_community(square(village.lat, village.lng, meters=2 * FENCE_METERS))
    await village.add_driver(community=around, north_meters=OUTSIDE_METERS)
    body = await village.request(uuid4())
    assert body.status_code == 202, "a driver of the larger community is not a home driver"
    within = await village.add_community(square(village.lat, village.lng, meters=FENCE_METERS / 2))
    await village.add_driver(community=within)
    ride = (await village.request(uuid4())).json()["ride"]
    assert ride["communityId"] == str(within.id)


async def test_passenger_with_an_open_ride_is_refused(village: Village) -> None:
    passenger_id = uuid4()
    ride_id = await village.town.rides.request(passenger_id)
    answer = await village.request(passenger_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "ride_already_open")
    assert answer.json()["ride_id"] == str(ride_id)
    await village.add_driver(based=True)
    assert (await village.request(passenger_id)).status_code == 409
    rows = await village.sql("SELECT FROM ride_confirmations WHERE passenger_id = $1", passenger_id)
    assert not rows


async def test_pause_after_cancellations_keeps_the_confirmation(village: Village) -> None:
    passenger_id, desk = uuid4(), village.town.rides
    token = await village.request_token(passenger_id)
    for _ in range(4):
        ride_id = await desk.request(passenger_id)
        assert (await desk.cancel(ride_id, bearer("passenger", passenger_id))).status_code == 200
    asked = await village.request(passenger_id, price=17)
    assert (asked.status_code, asked.json()["code"]) == (429, "ride_requests_paused")
    assert (await village.confirm(passenger_id, token)).status_code == 429
    await village.sql(
        "UPDATE rides SET canceled_at = canceled_at - interval '15 s' WHERE passenger_id = $1", passenger_id
    )
    assert (await village.confirm(passenger_id, token)).status_code == 201


async def test_incomplete_request_is_refused(village: Village) -> None:
    for left_out in ("type", "passengerLat", "passengerLng"):
        answer = await village.request(uuid4(), **{left_out: None})
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "ride_incomplete")
    nothing = await village.post(uuid4())
    assert (nothing.status_code, nothing.json()["errors"][0]["code"]) == (422, "ride_incomplete")
    half = await village.request(uuid4(), destinationLat=village.lat)
    assert (half.status_code, half.json()["errors"][0]["code"]) == (422, "place_incomplete")
    for price in (-0.01, "15.50", True, 1_000_001):
        assert (await village.request(uuid4(), price=price)).status_code == 422
    content = json.dumps(village.body()).replace("15.5", "1e999")
    headers = bearer("passenger") | {"content-type": "application/json"}
    endless = await village.town.api.post(PATH, content=content, headers=headers)
    assert endless.status_code in (400, 422), endless.text
