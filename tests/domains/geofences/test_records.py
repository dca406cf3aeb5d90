"""Confirmations in the audit log and metrics, their expiry, retention, export and erasure."""

from datetime import timedelta
from uuid import uuid4

import pytest

from catraca.domains.geofences.confirmations import store
from catraca.domains.geofences.confirmations.service import CONFIRMATION_SECONDS, CONFIRMATIONS
from catraca.domains.geofences.model import RideCreated
from catraca.domains.people import UserId
from catraca.platform.database import retention
from tests.conftest import bearer
from tests.domains.geofences.village import Village, community_rides

OUTCOMES = ("issued", "repeated", "confirmed", "replayed", "refused", "expired", "guessed")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def counted() -> dict[str, float]:
    return {outcome: CONFIRMATIONS.labels(outcome)._value.get() for outcome in OUTCOMES}


async def test_every_outcome_is_audited_and_counted(village: Village) -> None:
    passenger_id, stranger_id = uuid4(), uuid4()
    before, seconds = counted(), CONFIRMATION_SECONDS._sum.get()
    token = await village.request_token(passenger_id)
    await village.request_token(passenger_id)
    await village.confirm(passenger_id, token, price=1)
    await village.confirm(stranger_id, token)
    await village.confirm(passenger_id, token)
    await village.confirm(passenger_id, token)
    assert await village.audit_actions(token) == [
        (outcome, passenger_id) for outcome in ("issued", "repeated", "refused", "confirmed", "replayed")
    ]
    rows = await village.sql(
        "SELECT action, actor_id, data FROM audit_log WHERE subject_id = $1", str(stranger_id)
    )
    assert [tuple(row.values()) for row in rows] == [("user.confirmation_guessed", stranger_id, "{}")]
    expired = await village.request_token(passenger_id := uuid4())
    await village.age(expired)
    await village.confirm(passenger_id, expired)
    await village.expire(expired)
    await village.expire(expired)
    assert await village.audit_actions(expired) == [
        *(("issued", passenger_id), ("refused", passenger_id), ("expired", None))
    ]
    gained = {outcome: count - before[outcome] for outcome, count in counted().items()}
    assert gained == dict.fromkeys(OUTCOMES, 1) | {"issued": 2, "refused": 2}
    assert CONFIRMATION_SECONDS._sum.get() > seconds
    assert 'catraca_confirmations_total{outcome="confirmed"}' in (await village.town.api.get("/metrics")).text


async def test_refusal_entry_has_reason_and_community(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    await village.confirm(passenger_id, token, price=1)
    await village.age(token)
    await village.confirm(passenger_id, token)
    rows = await village.sql(
        "SELECT data->>'reason' AS reason, data->>'tier' AS tier, data->>'community_id' AS community,"
        " request_id IS NOT NULL AS traced FROM audit_log"
        " WHERE action = 'confirmation.refused' AND actor_id = $1 ORDER BY id",
        passenger_id,
    )
    reasons = ("confirmation_contradicted", "confirmation_token_expired")
    assert [tuple(row.values()) for row in rows] == [
        (reason, "open", str(village.community.id), True) for reason in reasons
    ]


async def test_rollback_is_neither_audited_nor_counted(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    await village.town.rides.request(passenger_id)
    before = counted()
    assert (await village.confirm(passenger_id, token)).status_code == 409
    assert (await village.request(passenger_id)).status_code == 409
    await village.cancel(passenger_id, (await village.rides_of(passenger_id))[0])
    with pytest.raises(ZeroDivisionError):
        async with village.town.parts.database.transaction() as db:
            answer = await community_rides(village).confirm_ride(
                db, token, {}, passenger_id=UserId(passenger_id), by=passenger_id
            )
            assert isinstance(answer, RideCreated)
            raise ZeroDivisionError
    assert await village.audit_actions(token) == [("issued", passenger_id)]
    assert counted() == before
    assert (await village.confirm(passenger_id, token)).status_code == 201


async def test_expiry_is_published_once(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    confirmation = await village.confirmation(token)
    await village.expire(token)
    assert await village.town.rides.event_keys(confirmation["id"]) == [], "before the expiry"
    await village.age(token)
    for _ in range(2):
        await village.expire(token)
    assert await village.town.rides.event_keys(confirmation["id"]) == ["ride.confirmation_expired"]
    (event,) = await village.sql("SELECT body FROM outbox WHERE aggregate_id = $1", confirmation["id"])
    assert f'"rider_id":"{passenger_id}"' in event["body"].replace(" ", "")
    assert not await village.sql("SELECT FROM timers WHERE subject_id = $1", confirmation["id"])


async def test_new_confirmation_expires_the_overdue_one(village: Village) -> None:
    passenger_id = uuid4()
    first = await village.request_token(passenger_id)
    confirmation = await village.confirmation(first)
    await village.age(first)
    second = await village.request_token(passenger_id)
    assert await village.town.rides.event_keys(confirmation["id"]) == ["ride.confirmation_expired"]
    assert not await village.sql("SELECT FROM timers WHERE subject_id = $1", confirmation["id"])
    (timer,) = await village.sql(
        "SELECT due_at FROM timers WHERE subject_id = $1", (await village.confirmation(second))["id"]
    )
    assert timer["due_at"] == (await village.confirmation(second))["expires_at"]


async def test_used_confirmation_never_expires(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.request_token(passenger_id)
    await village.confirm_ride(passenger_id, token)
    confirmation = await village.confirmation(token)
    assert not await village.sql("SELECT FROM timers WHERE subject_id = $1", confirmation["id"])
    await village.age(token)
    await village.expire(token)
    assert await village.town.rides.event_keys(confirmation["id"]) == []
    assert (await village.confirmation(token))["expired_at"] is None


async def test_prune_deletes_unused_confirmations_after_a_day(village: Village) -> None:
    prune = village.town.parts.database.run
    await prune(store.prune_confirmations)
    used_by, passenger_id, late_id = uuid4(), uuid4(), uuid4()
    used = await village.request_token(used_by)
    ride_id = await village.confirm_ride(used_by, used)
    expired, live = (
        await village.request_token(passenger_id),
        await village.request_token(passenger_id, price=1),
    )
    overdue = await village.request_token(late_id)
    for token in (expired, used, overdue):
        await village.age(token)
    await village.expire(expired)
    for token in (expired, used, overdue):
        await village.age(token, DAY - HOUR)
    assert await prune(store.prune_confirmations) == 0
    for token in (expired, used, overdue):
        await village.age(token, HOUR)
    assert await prune(store.prune_confirmations) == 1
    assert await village.confirmation(expired) is None
    assert (await village.confirm(passenger_id, expired)).status_code == 404
    assert await village.confirmation(live) is not None
    assert (await village.confirm(late_id, overdue)).status_code == 410, "before the expiry is published"
    assert (await village.confirm(used_by, used)).json()["rideId"] == str(ride_id)


async def test_prune_is_limited_per_call(village: Village, monkeypatch: pytest.MonkeyPatch) -> None:
    run = village.town.parts.database.run
    await run(store.prune_confirmations)
    passenger_id = uuid4()
    for price in range(3):
        token = await village.request_token(passenger_id, price=price)
        await village.age(token)
        await village.expire(token)
        await village.age(token, DAY)
    monkeypatch.setattr(retention, "PRUNED_AT_ONCE", 2)
    assert [await run(store.prune_confirmations) for _ in range(3)] == [2, 1, 0]


async def test_export_has_requests_and_no_tokens(village: Village) -> None:
    passenger_id = uuid4()
    headers = bearer("passenger", passenger_id)
    nothing = await village.town.api.get("/v1/me/export", headers=headers)
    assert nothing.json()["sections"]["confirmations"] is None
    token = await village.request_token(passenger_id)
    await village.request_token(passenger_id, price=1)
    ride_id = await village.confirm_ride(passenger_id, token)
    body = (await village.town.api.get("/v1/me/export", headers=headers)).json()["sections"]["confirmations"]
    assert [one["ride_id"] for one in body] == [None, str(ride_id)]
    assert body[1]["asked"] == {
        "type": "comunidade",
        "lat": village.lat,
        "lng": village.lng,
        "origin": "Origem",
        "destination": "Destino",
        "price_cents": 1550,
    }


async def test_erasure_keeps_places_and_removes_addresses(village: Village) -> None:
    passenger_id, other_id = uuid4(), uuid4()
    used, unused = (
        await village.request_token(passenger_id),
        await village.request_token(passenger_id, price=1),
    )
    others = await village.request_token(other_id)
    await village.cancel(passenger_id, await village.confirm_ride(passenger_id, used))
    digest = (await village.confirmation(used))["asked_hash"]
    answer = await village.town.api.delete("/v1/me", headers=bearer("passenger", passenger_id))
    assert answer.status_code == 204
    assert await village.confirmation(unused) is None
    left = await village.confirmation(used)
    assert "Origem" not in left["asked"]
    assert "Destino" not in left["asked"]
    assert str(village.lat) in left["asked"]
    assert left["asked_hash"] != digest, "an address could be guessed from it"
    assert "Origem" in (await village.confirmation(others))["asked"]
