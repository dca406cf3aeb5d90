"""Whose ride it is: the caller's own, or, for operators and services, that of somebody there is."""

from uuid import uuid4

import pytest

from tests.conftest import bearer
from tests.domains.geofences.village import Village


@pytest.mark.parametrize("role", ["operator", "service"])
async def test_operators_and_services_ask_and_confirm_for_a_passenger(village: Village, role: str) -> None:
    passenger_id, caller_id = uuid4(), uuid4()
    caller = bearer(role, caller_id)
    await village.town.api.get("/v1/me", headers=bearer("passenger", passenger_id))
    asked = await village.post(passenger_id, caller, **village.asked())
    assert asked.status_code == 202, asked.text
    token = asked.json()["confirmationToken"]
    assert await village.token(passenger_id) == token, "it is the passenger's own question"
    confirmed = await village.post(passenger_id, caller, confirmationToken=token)
    assert confirmed.status_code == 201, confirmed.text
    assert confirmed.json()["ride"]["passengerId"] == str(passenger_id)
    assert (await village.confirm(passenger_id, token)).json()["rideId"] == confirmed.json()["rideId"]
    wrong = await village.post(passenger_id, caller, confirmationToken="0" * 64)
    assert wrong.status_code == 404
    assert await village.audited(token) == [
        ("issued", caller_id),
        ("repeated", passenger_id),
        ("confirmed", caller_id),
        ("replayed", passenger_id),
    ]
    (guessed,) = await village.sql(
        "SELECT actor_id FROM audit_log WHERE subject_id = $1 AND action = 'user.confirmation_guessed'",
        str(passenger_id),
    )
    assert guessed["actor_id"] == caller_id


@pytest.mark.parametrize("role", ["passenger", "driver", "worker"])
async def test_nobody_else_asks_or_confirms_for_another(village: Village, role: str) -> None:
    passenger_id, caller = uuid4(), bearer(role)
    token = await village.token(passenger_id)
    for body in (village.asked(), {"confirmationToken": token}):
        answer = await village.post(passenger_id, caller, **body)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert await village.rides_of(passenger_id) == []
    assert (await village.question(token))["used_at"] is None


@pytest.mark.parametrize("role", ["driver", "worker", "operator", "service"])
async def test_who_is_no_passenger_has_no_ride_of_their_own(village: Village, role: str) -> None:
    caller_id = uuid4()
    answer = await village.post(caller_id, bearer(role, caller_id), **village.asked())
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_passenger_who_is_also_an_operator_may_do_both(village: Village) -> None:
    caller_id, passenger_id = uuid4(), uuid4()
    both = bearer(["passenger", "operator"], caller_id)
    await village.town.api.get("/v1/me", headers=bearer("passenger", passenger_id))
    assert (await village.post(caller_id, both, **village.asked())).status_code == 202
    assert (await village.post(passenger_id, both, **village.asked())).status_code == 202


async def test_there_is_no_ride_for_nobody(village: Village) -> None:
    answer = await village.post(uuid4(), bearer("operator"), **village.asked())
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    erased_id = uuid4()
    token = await village.token(erased_id)
    headers = bearer("passenger", erased_id)
    assert (await village.town.api.delete("/v1/me", headers=headers)).status_code == 204
    for body in (village.asked(), village.asked(type="normal"), {"confirmationToken": token}):
        answer = await village.post(erased_id, bearer("operator"), **body)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert await village.rides_of(erased_id) == []


async def test_without_a_token_of_access_nothing_is_said(village: Village) -> None:
    answer = await village.post(uuid4(), {"authorization": ""}, **village.asked())
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
