"""The ride's passenger: the caller, or any existing user for operators and services."""

from uuid import uuid4

import pytest

from tests.conftest import bearer
from tests.domains.geofences.village import Village


@pytest.mark.parametrize("role", ["operator", "service"])
async def test_operators_and_services_act_for_a_passenger(village: Village, role: str) -> None:
    passenger_id, caller_id = uuid4(), uuid4()
    caller = bearer(role, caller_id)
    await village.town.api.get("/v1/me", headers=bearer("passenger", passenger_id))
    requested = await village.post(passenger_id, caller, **village.body())
    assert requested.status_code == 202, requested.text
    token = requested.json()["confirmationToken"]
    assert await village.request_token(passenger_id) == token, "the passenger gets the same confirmation"
    confirmed = await village.post(passenger_id, caller, confirmationToken=token)
    assert confirmed.status_code == 201, confirmed.text
    assert confirmed.json()["ride"]["passengerId"] == str(passenger_id)
    assert (await village.confirm(passenger_id, token)).json()["rideId"] == confirmed.json()["rideId"]
    wrong = await village.post(passenger_id, caller, confirmationToken="0" * 64)
    assert wrong.status_code == 404
    assert await village.audit_actions(token) == [
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
async def test_other_roles_cannot_act_for_a_passenger(village: Village, role: str) -> None:
    passenger_id, caller = uuid4(), bearer(role)
    token = await village.request_token(passenger_id)
    for body in (village.body(), {"confirmationToken": token}):
        answer = await village.post(passenger_id, caller, **body)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert await village.rides_of(passenger_id) == []
    assert (await village.confirmation(token))["used_at"] is None


@pytest.mark.parametrize("role", ["driver", "worker", "operator", "service"])
async def test_caller_without_the_passenger_role_is_refused(village: Village, role: str) -> None:
    caller_id = uuid4()
    answer = await village.post(caller_id, bearer(role, caller_id), **village.body())
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_passenger_and_operator_may_do_both(village: Village) -> None:
    caller_id, passenger_id = uuid4(), uuid4()
    both = bearer(["passenger", "operator"], caller_id)
    await village.town.api.get("/v1/me", headers=bearer("passenger", passenger_id))
    assert (await village.post(caller_id, both, **village.body())).status_code == 202
    assert (await village.post(passenger_id, both, **village.body())).status_code == 202


async def test_unknown_and_erased_passengers_are_not_found(village: Village) -> None:
    answer = await village.post(uuid4(), bearer("operator"), **village.body())
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    erased_id = uuid4()
    token = await village.request_token(erased_id)
    headers = bearer("passenger", erased_id)
    assert (await village.town.api.delete("/v1/me", headers=headers)).status_code == 204
    for body in (village.body(), village.body(type="normal"), {"confirmationToken": token}):
        answer = await village.post(erased_id, bearer("operator"), **body)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert await village.rides_of(erased_id) == []


async def test_request_without_authentication_is_refused(village: Village) -> None:
    answer = await village.post(uuid4(), {"authorization": ""}, **village.body())
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
