"""Confirmations: one ride, also if repeated, late or concurrent."""

import asyncio
import json
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.domains import communities
from catraca.domains.communities.service import change_community
from catraca.domains.geofences.model import RideCreated, read_request
from catraca.domains.people import UserId
from catraca.platform.database import Database, DatabaseLimits
from catraca.platform.errors import Refusal
from tests.domains.geofences.village import OUTSIDE_METERS, Village, community_rides, square

EXPIRED = "O prazo para confirmar acabou. Solicite a corrida novamente."


def ride_of(answer: httpx.Response) -> UUID:
    assert answer.status_code in (200, 201), answer.text
    assert answer.json()["rideId"] == answer.json()["ride"]["id"]
    return UUID(answer.json()["rideId"])


async def test_repeated_confirmation_returns_the_same_ride(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    first = await village.confirm(passenger_id, token)
    assert first.status_code == 201, first.text
    assert (first.json()["success"], first.json()["message"]) == (
        *(True, "Corrida fora da cerca criada com sucesso"),
    )
    ride = first.json()["ride"]
    assert (ride["type"], ride["tier"], ride["status"]) == ("comunidade", "open", "REQUESTED")
    assert (ride["origin"], ride["destination"], ride["price"]) == ("Origem", "Destino", 15.5)
    assert (ride["passengerLat"], ride["passengerLng"]) == (village.lat, village.lng)
    for _ in range(3):
        again = await village.confirm(passenger_id, token)
        assert again.status_code == 200, again.text
        assert (again.json()["success"], again.json()["message"]) == (True, "Corrida já criada anteriormente")
        assert ride_of(again) == ride_of(first)
        assert again.json()["ride"] == ride
    assert await village.rides_of(passenger_id) == [ride_of(first)]
    (row,) = await village.sql("SELECT confirmation_id FROM rides WHERE id = $1", ride_of(first))
    confirmation = await village.confirmation(token)
    assert (confirmation["id"], confirmation["ride_id"]) == (row["confirmation_id"], ride_of(first))
    assert await village.town.rides.event_keys(ride_of(first)) == ["ride.requested"]


async def test_ride_messages_in_english(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    english = {"accept-language": "en"}
    body = [await village.post(passenger_id, english, confirmationToken=token) for _ in range(2)]
    assert [one.json()["message"] for one in body] == [
        "Ride beyond the fence created",
        "Ride created before",
    ]


async def test_fifty_concurrent_confirmations_create_one_ride(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    answers = await asyncio.gather(*(village.confirm(passenger_id, token) for _ in range(50)))
    assert sorted(answer.status_code for answer in answers) == [200] * 49 + [201]
    assert [{ride_of(answer) for answer in answers}] == [set(await village.rides_of(passenger_id))]


async def test_late_repeat_returns_the_ride_after_its_end(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    ride_id = await village.confirm_ride(passenger_id, token)
    await village.age(token)
    await village.expire(token)
    assert ride_of(late := await village.confirm(passenger_id, token)) == ride_id
    assert late.status_code == 200
    await village.cancel(passenger_id, ride_id)
    over = await village.confirm(passenger_id, token)
    assert (over.status_code, ride_of(over)) == (200, ride_id)
    assert over.json()["ride"]["status"] == "CANCELED"
    await village.town.rides.request(passenger_id)
    meanwhile = await village.confirm(passenger_id, token)
    assert (meanwhile.status_code, ride_of(meanwhile)) == (200, ride_id), "also with another open ride"


async def test_expired_token_is_refused_before_and_after_the_timer(
    village: Village,
) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    await village.age(token)
    confirmation = await village.confirmation(token)
    for _ in range(2):
        answer = await village.confirm(passenger_id, token)
        assert (answer.status_code, answer.json()["code"]) == (410, "confirmation_token_expired")
        assert answer.json()["detail"] == EXPIRED
        assert answer.json()["expired_at"] == confirmation["expires_at"].isoformat().replace("+00:00", "Z")
        await village.expire(token)
    assert await village.rides_of(passenger_id) == []
    assert (await village.confirmation(token))["ride_id"] is None


async def test_confirmation_may_repeat_the_request(village: Village) -> None:
    passenger_id = uuid4()
    whole = {"destinationLat": village.lat + 0.01, "destinationLng": village.lng}
    token = await village.request_token(passenger_id, **whole)
    first = await village.confirm(passenger_id, token, **village.body(**whole))
    assert first.status_code == 201, first.text
    assert (await village.confirm(passenger_id, token, type="comunidade", price=15.5)).status_code == 200


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"price": 15.49}, ["price"]),
        ({"type": "normal"}, ["type"]),
        ({"passengerLat": 1.5, "passengerLng": 2.5}, ["passengerLat", "passengerLng"]),
        ({"origin": "Outra", "destination": "Outro"}, ["origin", "destination"]),
        ({"destinationLat": 1.5, "destinationLng": 2.5}, ["destinationLat", "destinationLng"]),
    ],
)
async def test_contradicting_body_is_refused_and_uses_nothing(
    village: Village, changes: dict[str, Any], fields: list[str]
) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    answer = await village.confirm(passenger_id, token, **changes)
    assert (answer.status_code, answer.json()["code"]) == (422, "confirmation_contradicted")
    assert answer.json()["fields"] == fields
    assert (await village.confirmation(token))["used_at"] is None
    assert await village.rides_of(passenger_id) == []
    ride_id = await village.confirm_ride(passenger_id, token)
    assert (await village.confirm(passenger_id, token, **changes)).status_code == 422
    assert await village.rides_of(passenger_id) == [ride_id]


async def test_confirmation_creates_no_second_open_ride(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    ride_id = await village.town.rides.request(passenger_id)
    answer = await village.confirm(passenger_id, token)
    assert (answer.status_code, answer.json()["code"]) == (409, "ride_already_open")
    assert answer.json()["ride_id"] == str(ride_id)
    assert (await village.confirmation(token))["used_at"] is None, "the confirmation stays unused"
    await village.cancel(passenger_id, ride_id)
    assert (await village.confirm(passenger_id, token)).status_code == 201


async def test_one_of_two_concurrent_confirmations_creates_a_ride(village: Village) -> None:
    for _ in range(5):
        passenger_id = uuid4()
        tokens = [
            await village.request_token(passenger_id),
            await village.request_token(passenger_id, price=20),
        ]
        answers = await asyncio.gather(*(village.confirm(passenger_id, one) for one in tokens * 5))
        statuses = [answer.status_code for answer in answers]
        assert sorted(statuses) == [200] * 4 + [201] + [409] * 5, statuses
        (ride_id,) = await village.rides_of(passenger_id)
        assert {ride_of(one) for one in answers if one.status_code != 409} == {ride_id}
        assert {one.json()["ride_id"] for one in answers if one.status_code == 409} == {str(ride_id)}


async def test_home_driver_arrived_meanwhile_gives_the_home_fare(village: Village) -> None:
    home, outside = communities.Prices(0, 0, 0, 900), communities.Prices(0, 0, 0, 1700)
    priced = await Village.create(village.town, tariff=home, outside_tariff=outside)
    passenger_id = uuid4()
    token = await priced.request_token(passenger_id)
    await priced.add_driver(based=True, north_meters=OUTSIDE_METERS)
    answer = await priced.confirm(passenger_id, token)
    assert answer.status_code == 201, answer.text
    assert answer.json()["message"] == "Corrida criada com sucesso: há um motorista na sua comunidade"
    assert answer.json()["ride"]["fareCents"] == 900
    assert answer.json()["ride"]["tier"] == "open", "the confirmed tier stays"
    confirmation = await priced.confirmation(token)
    (row,) = await priced.sql("SELECT id, confirmation_id FROM rides WHERE passenger_id = $1", passenger_id)
    assert (row["id"], row["confirmation_id"]) == (confirmation["ride_id"], confirmation["id"])


async def test_repeated_request_at_home_uses_the_confirmation(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    other_token = await village.request_token(passenger_id, price=20)
    await village.add_driver(based=True)
    answer = await village.request(passenger_id)
    assert answer.status_code == 201, answer.text
    assert answer.json()["ride"]["tier"] == "home"
    assert answer.json()["message"] == "Corrida criada com sucesso"
    confirmed = await village.confirm(passenger_id, token)
    assert (confirmed.status_code, ride_of(confirmed)) == (200, ride_of(answer))
    assert (await village.confirm(passenger_id, other_token)).status_code == 409, "a different request"
    confirmation = await village.confirmation(token)
    assert not await village.sql("SELECT FROM timers WHERE subject_id = $1", confirmation["id"])


async def test_repeated_request_does_not_use_an_expired_confirmation(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    await village.age(token)
    await village.add_driver(based=True)
    assert (await village.request(passenger_id)).status_code == 201
    assert (await village.confirm(passenger_id, token)).status_code == 410
    (row,) = await village.sql("SELECT confirmation_id FROM rides WHERE passenger_id = $1", passenger_id)
    assert row["confirmation_id"] is None


async def test_confirmation_works_after_the_community_is_retired(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    fence = json.dumps(square(village.lat, village.lng))
    async with village.town.parts.database.transaction() as db:
        retired = communities.Rules(name="Vila", fallback=(), retired=True)
        await change_community(db, village.community.id, retired, fence, version=1, by=None)
    ride_id = await village.confirm_ride(passenger_id, token)
    (row,) = await village.sql("SELECT community_version, tier FROM rides WHERE id = $1", ride_id)
    assert (row["community_version"], row["tier"]) == (1, "open")


async def test_request_during_a_confirmation_waits_and_is_refused(village: Village) -> None:
    """The repeated request waits for the confirmation, and then finds its ride."""
    passenger_id = UserId(uuid4())
    token = await village.request_token(passenger_id)
    confirmation = await village.confirmation(token)
    request, service = read_request(confirmation["asked"]), community_rides(village)
    caller: Any = {"passenger_id": passenger_id, "by": passenger_id}
    limits = DatabaseLimits(lock_seconds=30, statement_seconds=60, idle_in_transaction_seconds=60)
    database = await Database.open(village.town.parts.settings.servers.database_url, limits=limits)
    try:
        async with database.transaction() as db:
            await db.execute("SELECT FROM ride_confirmations WHERE id = $1 FOR UPDATE", confirmation["id"])
            confirm = database.run(lambda db: service.confirm_ride(db, token, {}, **caller))
            confirmation_task = asyncio.create_task(confirm)
            await village.until_blocked(1)
            request_task = asyncio.create_task(
                database.run(lambda db: service.request_ride(db, request, **caller))
            )
            await village.until_blocked(2)
        assert isinstance(await confirmation_task, RideCreated)
        with pytest.raises(Refusal, match="ride_already_open"):
            await request_task
    finally:
        await database.close()
    rows = await village.sql("SELECT id FROM ride_confirmations WHERE passenger_id = $1", passenger_id)
    assert [row["id"] for row in rows] == [confirmation["id"]]


async def test_idempotency_key_stores_rides_and_no_confirmations(village: Village) -> None:
    passenger_id, key = uuid4(), {"idempotency-key": "first"}
    requested = [await village.post(passenger_id, key, **village.body()) for _ in range(2)]
    assert [one.status_code for one in requested] == [202, 202]
    assert requested[0].text == requested[1].text
    assert "idempotency-replayed" not in requested[1].headers
    token = requested[0].json()["confirmationToken"]
    wrong = await village.post(passenger_id, key, confirmationToken="0" * 64)
    assert wrong.status_code == 404
    confirmed = [await village.post(passenger_id, key, confirmationToken=token) for _ in range(2)]
    assert [one.status_code for one in confirmed] == [201, 201]
    assert confirmed[0].content == confirmed[1].content
    assert confirmed[1].headers["idempotency-replayed"] == "true"
    other = await village.post(passenger_id, {"idempotency-key": "other"}, confirmationToken=token)
    assert other.status_code == 200, "another key returns the same ride"


async def test_repeat_with_a_key_creates_a_ride_once_a_driver_is_there(
    village: Village,
) -> None:
    passenger_id, key = uuid4(), {"idempotency-key": "first"}
    assert (await village.post(passenger_id, key, **village.body())).status_code == 202
    await village.add_driver(based=True)
    opened = [await village.post(passenger_id, key, **village.body()) for _ in range(2)]
    assert [one.status_code for one in opened] == [201, 201]
    assert opened[0].content == opened[1].content
    assert len(await village.rides_of(passenger_id)) == 1
