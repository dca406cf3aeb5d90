"""Asking for a ride in a community: with one of its own at once, else one question until it is over."""

import asyncio
import json
import re
from datetime import datetime, timedelta
from uuid import uuid4

from catraca.domains import communities
from catraca.domains.communities.service import change_community
from tests.conftest import bearer
from tests.domains.geofences.village import FENCE_METERS, OUTSIDE_METERS, PATH, Village, square

QUESTION = "Nenhum motorista disponível na sua comunidade. Confirme para buscar motoristas de outras áreas."


def seconds_between(row: dict[str, datetime]) -> float:
    return (row["expires_at"] - row["created_at"]).total_seconds()


async def test_with_nobody_there_the_passenger_is_asked(village: Village) -> None:
    passenger_id = uuid4()
    answer = await village.ask(passenger_id)
    assert answer.status_code == 202, answer.text
    told = answer.json()
    assert list(told) == [
        *("success", "requiresConfirmation", "confirmationToken", "expiresAt", "ttlMinutes", "message"),
        "changes",
    ]
    assert (told["success"], told["requiresConfirmation"]) == (False, True)
    assert re.fullmatch(r"[0-9a-f]{64}", told["confirmationToken"])
    assert '"ttlMinutes":5,' in answer.text, "a whole number, as in the contract"
    assert told["message"] == QUESTION
    question = await village.question(told["confirmationToken"])
    assert datetime.fromisoformat(told["expiresAt"]) == question["expires_at"]
    assert round(seconds_between(question), 3) == 300
    assert await village.rides_of(passenger_id) == [], "nothing has happened yet"


async def test_in_english_it_is_asked_in_english(village: Village) -> None:
    answer = await village.post(uuid4(), {"accept-language": "en"}, **village.asked())
    assert answer.headers["content-language"] == "en"
    assert answer.json()["message"] == (
        "No driver is available in your community. Confirm to look for drivers from other areas."
    )


async def test_the_same_request_again_is_the_same_question(village: Village) -> None:
    passenger_id = uuid4()
    first, second = await village.ask(passenger_id), await village.ask(passenger_id)
    assert (second.status_code, second.text) == (202, first.text)
    twin = await village.town.api.post(
        "/v1/governance/ride/request",
        json=village.asked(),
        headers=bearer("passenger", passenger_id) | {"accept-language": "pt-BR"},
    )
    assert (twin.status_code, twin.text) == (202, first.text), "also by its other path, and without the id"


async def test_another_request_or_another_passenger_is_another_question(village: Village) -> None:
    passenger_id = uuid4()
    tokens = [
        await village.token(passenger_id),
        await village.token(passenger_id, price=15.51),
        await village.token(passenger_id, price=None),
        await village.token(passenger_id, origin=None),
        await village.token(passenger_id, destination="Outro"),
        await village.token(passenger_id, passengerLat=village.lat + 0.001),
        await village.token(passenger_id, destinationLat=village.lat, destinationLng=village.lng),
        await village.token(uuid4()),
    ]
    assert len(set(tokens)) == len(tokens)


async def test_many_first_requests_at_once_are_one_question(village: Village) -> None:
    passenger_id = uuid4()
    answers = await asyncio.gather(*(village.ask(passenger_id) for _ in range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    rows = await village.sql("SELECT FROM ride_confirmations WHERE passenger_id = $1", passenger_id)
    assert len(rows) == 1


async def test_after_its_time_it_is_a_new_question_whether_or_not_anybody_noticed(village: Village) -> None:
    passenger_id = uuid4()
    first = await village.token(passenger_id)
    await village.let_lapse(first)
    second = await village.token(passenger_id)
    await village.let_lapse(second)
    await village.close(second)
    third = await village.token(passenger_id)
    assert len({first, second, third}) == 3
    assert [(await village.question(one))["expired_at"] is None for one in (first, second, third)] == [
        *(False, False, True)
    ]


async def test_a_community_may_give_less_time(village: Village) -> None:
    hasty = await Village.settle(village.town, confirmation_ttl_seconds=90)
    told = (await hasty.ask(uuid4())).json()
    assert told["ttlMinutes"] == 1.5
    assert round(seconds_between(await hasty.question(told["confirmationToken"])), 3) == 90
    async with village.under(confirmation_ttl=timedelta(seconds=30)) as elsewhere:
        assert (await elsewhere.ask(uuid4())).json()["ttlMinutes"] == 0.5, (
            "the setting, where it says nothing"
        )


async def test_with_one_of_its_own_there_is_a_ride_at_once(village: Village) -> None:
    await village.driver(based=True, north_meters=OUTSIDE_METERS)
    passenger_id = uuid4()
    answer = await village.ask(passenger_id)
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert list(told) == ["success", "rideId", "ride", "message"]
    assert (told["success"], told["message"]) == (True, "Corrida criada com sucesso")
    (ride_id,) = await village.rides_of(passenger_id)
    ride = told["ride"]
    assert told["rideId"] == ride["id"] == str(ride_id)
    assert (ride["type"], ride["tier"], ride["status"]) == ("comunidade", "home", "REQUESTED")
    assert (ride["communityId"], ride["passengerId"]) == (str(village.community.id), str(passenger_id))
    assert (ride["origin"], ride["destination"], ride["price"]) == ("Origem", "Destino", 15.5)
    read = await village.town.rides.read(ride_id)
    assert (read["type"], read["community_id"], read["tier"]) == (
        *("comunidade", str(village.community.id), "home"),
    )


async def test_a_driver_inside_the_fence_is_one_of_its_own_and_one_outside_is_not(village: Village) -> None:
    driver_id = await village.driver(north_meters=OUTSIDE_METERS)
    assert (await village.ask(uuid4())).status_code == 202
    await village.sql(
        "INSERT INTO driver_communities (driver_id, community_id, inside, since, seen_at)"
        " VALUES ($1, $2, true, now(), now())"
        " ON CONFLICT (driver_id, community_id) DO UPDATE SET inside = true",
        driver_id,
        village.community.id,
    )
    assert (await village.ask(uuid4())).status_code == 201


async def test_who_asks_is_not_who_drives(village: Village) -> None:
    passenger_id = await village.driver(based=True)
    assert (await village.ask(passenger_id)).status_code == 202


async def test_a_busy_driver_is_not_there(village: Village) -> None:
    driver_id = await village.driver(based=True)
    await village.town.drive(driver_id)
    assert (await village.ask(uuid4())).status_code == 202


async def test_an_ordinary_ride_ignores_fences(village: Village) -> None:
    passenger_id = uuid4()
    answer = await village.ask(passenger_id, type="normal")
    assert answer.status_code == 201, answer.text
    ride = answer.json()["ride"]
    assert (ride["type"], ride["communityId"], ride["tier"], ride["fareCents"]) == (
        "normal",
        None,
        None,
        None,
    )
    nowhere = await village.ask(uuid4(), type="normal", passengerLat=village.lat + 0.5)
    assert nowhere.status_code == 201, nowhere.text


async def test_without_geofences_a_communitys_ride_is_like_any_other(village: Village) -> None:
    asked_before = uuid4()
    token = await village.token(asked_before)
    async with village.under(enable_geofence=False) as open_land:
        answer = await open_land.ask(uuid4())
        assert answer.status_code == 201, answer.text
        assert (answer.json()["ride"]["type"], answer.json()["ride"]["tier"]) == ("normal", None)
        assert (await open_land.ask(uuid4(), passengerLat=village.lat + 0.5)).status_code == 201
        confirmed = await open_land.confirm(asked_before, token)
        assert confirmed.status_code == 201, "what was issued still confirms"
        assert confirmed.json()["ride"]["tier"] == "open"


async def test_where_no_community_is_there_is_none_to_ask(village: Village) -> None:
    answer = await village.ask(uuid4(), passengerLat=village.lat + 0.5)
    assert (answer.status_code, answer.json()["code"]) == (422, "no_community_here")
    assert 'tipo "normal"' in answer.json()["detail"]


async def test_a_retired_community_is_no_longer_there(village: Village) -> None:
    retired = communities.Rules(name="Vila", retired=True)
    fence = json.dumps(square(village.lat, village.lng))
    async with village.town.parts.database.transaction() as db:
        await change_community(
            db, village.community.id, retired, fence, version=village.community.version, by=None
        )
    assert (await village.ask(uuid4())).json()["code"] == "no_community_here"


async def test_without_a_way_out_the_ride_waits_for_the_communitys_own(village: Village) -> None:
    patient = await Village.settle(village.town, fallback=())
    await patient.driver(north_meters=OUTSIDE_METERS)
    answer = await patient.ask(uuid4())
    assert answer.status_code == 201, answer.text
    assert answer.json()["ride"]["tier"] == "home"


async def test_of_fences_around_each_other_the_smallest_is_home(village: Village) -> None:
    around = await village.another(square(village.lat, village.lng, meters=2 * FENCE_METERS))
    await village.driver(community=around, north_meters=OUTSIDE_METERS)
    told = await village.ask(uuid4())
    assert told.status_code == 202, "the larger one's driver is not at home in the smaller"
    within = await village.another(square(village.lat, village.lng, meters=FENCE_METERS / 2))
    await village.driver(community=within)
    ride = (await village.ask(uuid4())).json()["ride"]
    assert ride["communityId"] == str(within.id)


async def test_a_passenger_with_a_ride_is_not_asked(village: Village) -> None:
    passenger_id = uuid4()
    ride_id = await village.town.rides.request(passenger_id)
    answer = await village.ask(passenger_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "ride_already_open")
    assert answer.json()["ride_id"] == str(ride_id)
    await village.driver(based=True)
    assert (await village.ask(passenger_id)).status_code == 409
    rows = await village.sql("SELECT FROM ride_confirmations WHERE passenger_id = $1", passenger_id)
    assert not rows


async def test_half_a_request_is_refused(village: Village) -> None:
    for left_out in ("type", "passengerLat", "passengerLng"):
        answer = await village.ask(uuid4(), **{left_out: None})
        assert (answer.status_code, answer.json()["errors"][0]["code"]) == (422, "ride_incomplete")
    nothing = await village.post(uuid4())
    assert (nothing.status_code, nothing.json()["errors"][0]["code"]) == (422, "ride_incomplete")
    half = await village.ask(uuid4(), destinationLat=village.lat)
    assert (half.status_code, half.json()["errors"][0]["code"]) == (422, "place_incomplete")
    for price in (-0.01, "15.50", True, 1_000_001):
        assert (await village.ask(uuid4(), price=price)).status_code == 422
    content = json.dumps(village.asked()).replace("15.5", "1e999")
    headers = bearer("passenger") | {"content-type": "application/json"}
    endless = await village.town.api.post(PATH, content=content, headers=headers)
    assert endless.status_code in (400, 422), endless.text
