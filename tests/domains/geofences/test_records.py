"""What is written down of questions and confirmations, what is counted, and what is kept of a person."""

from datetime import timedelta
from uuid import uuid4

import pytest

from catraca.domains.geofences.confirmations import jobs
from catraca.domains.geofences.confirmations.service import CONFIRMATION_SECONDS, CONFIRMATIONS
from catraca.domains.geofences.model import RideCreated
from catraca.domains.people import UserId
from tests.conftest import bearer
from tests.domains.geofences.village import Village, community_rides

OUTCOMES = ("issued", "repeated", "confirmed", "replayed", "refused", "expired", "guessed")
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def counted() -> dict[str, float]:
    return {outcome: CONFIRMATIONS.labels(outcome)._value.get() for outcome in OUTCOMES}


async def test_everything_done_with_a_question_is_audited_and_counted(village: Village) -> None:
    passenger_id, stranger_id = uuid4(), uuid4()
    before, thoughts = counted(), CONFIRMATION_SECONDS._sum.get()
    token = await village.token(passenger_id)
    await village.token(passenger_id)
    await village.confirm(passenger_id, token, price=1)
    await village.confirm(stranger_id, token)
    await village.confirm(passenger_id, token)
    await village.confirm(passenger_id, token)
    assert await village.audited(token) == [
        (outcome, passenger_id) for outcome in ("issued", "repeated", "refused", "confirmed", "replayed")
    ]
    rows = await village.sql(
        "SELECT action, actor_id, data FROM audit_log WHERE subject_id = $1", str(stranger_id)
    )
    assert [tuple(row.values()) for row in rows] == [("user.confirmation_guessed", stranger_id, "{}")]
    lapsed = await village.token(passenger_id := uuid4())
    await village.let_lapse(lapsed)
    await village.confirm(passenger_id, lapsed)
    await village.close(lapsed)
    await village.close(lapsed)
    assert await village.audited(lapsed) == [
        *(("issued", passenger_id), ("refused", passenger_id), ("expired", None))
    ]
    gained = {outcome: count - before[outcome] for outcome, count in counted().items()}
    assert gained == dict.fromkeys(OUTCOMES, 1) | {"issued": 2, "refused": 2}
    assert CONFIRMATION_SECONDS._sum.get() > thoughts
    assert 'catraca_confirmations_total{outcome="confirmed"}' in (await village.town.api.get("/metrics")).text


async def test_a_refusal_says_why_and_where(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.token(passenger_id)
    await village.confirm(passenger_id, token, price=1)
    await village.let_lapse(token)
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


async def test_what_is_undone_is_neither_audited_nor_counted(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.token(passenger_id)
    await village.town.rides.request(passenger_id)
    before = counted()
    assert (await village.confirm(passenger_id, token)).status_code == 409
    assert (await village.ask(passenger_id)).status_code == 409
    await village.cancel(passenger_id, (await village.rides_of(passenger_id))[0])
    with pytest.raises(ZeroDivisionError):
        async with village.town.parts.database.transaction() as db:
            answer = await community_rides(village).confirm_ride(
                db, token, {}, passenger_id=UserId(passenger_id), by=passenger_id
            )
            assert isinstance(answer, RideCreated)
            raise ZeroDivisionError
    assert await village.audited(token) == [("issued", passenger_id)]
    assert counted() == before
    assert (await village.confirm(passenger_id, token)).status_code == 201


async def test_that_nobody_confirmed_in_time_is_told_once(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.token(passenger_id)
    question = await village.question(token)
    await village.close(token)
    assert await village.town.rides.told(question["id"]) == [], "it is not time yet"
    await village.let_lapse(token)
    for _ in range(2):
        await village.close(token)
    assert await village.town.rides.told(question["id"]) == ["ride.confirmation_expired"]
    (event,) = await village.sql("SELECT body FROM outbox WHERE aggregate_id = $1", question["id"])
    assert f'"rider_id":"{passenger_id}"' in event["body"].replace(" ", "")
    assert not await village.sql("SELECT FROM timers WHERE subject_id = $1", question["id"])


async def test_a_new_question_closes_and_tells_of_the_one_before(village: Village) -> None:
    passenger_id = uuid4()
    first = await village.token(passenger_id)
    question = await village.question(first)
    await village.let_lapse(first)
    second = await village.token(passenger_id)
    assert await village.town.rides.told(question["id"]) == ["ride.confirmation_expired"]
    assert not await village.sql("SELECT FROM timers WHERE subject_id = $1", question["id"])
    (timer,) = await village.sql(
        "SELECT due_at FROM timers WHERE subject_id = $1", (await village.question(second))["id"]
    )
    assert timer["due_at"] == (await village.question(second))["expires_at"]


async def test_of_a_used_question_nothing_is_told(village: Village) -> None:
    passenger_id = uuid4()
    token = await village.token(passenger_id)
    await village.confirmed(passenger_id, token)
    question = await village.question(token)
    assert not await village.sql("SELECT FROM timers WHERE subject_id = $1", question["id"])
    await village.let_lapse(token)
    await village.close(token)
    assert await village.town.rides.told(question["id"]) == []
    assert (await village.question(token))["expired_at"] is None


async def test_what_expired_unused_goes_after_a_day_and_what_was_used_stays(village: Village) -> None:
    prune = village.town.parts.database.run
    await prune(jobs.prune_confirmations)
    used_by, passenger_id, late_id = uuid4(), uuid4(), uuid4()
    used = await village.token(used_by)
    ride_id = await village.confirmed(used_by, used)
    lapsed, live = await village.token(passenger_id), await village.token(passenger_id, price=1)
    unnoticed = await village.token(late_id)
    for token in (lapsed, used, unnoticed):
        await village.let_lapse(token)
    await village.close(lapsed)
    for token in (lapsed, used, unnoticed):
        await village.let_lapse(token, DAY - HOUR)
    assert await prune(jobs.prune_confirmations) == 0
    for token in (lapsed, used, unnoticed):
        await village.let_lapse(token, HOUR)
    assert await prune(jobs.prune_confirmations) == 1
    assert await village.question(lapsed) is None
    assert (await village.confirm(passenger_id, lapsed)).status_code == 404
    assert await village.question(live) is not None
    assert (await village.confirm(late_id, unnoticed)).status_code == 410, "first it must be told"
    assert (await village.confirm(used_by, used)).json()["rideId"] == str(ride_id)


async def test_they_are_dropped_a_bounded_number_at_a_time(village: Village) -> None:
    run = village.town.parts.database.run
    await run(jobs.prune_confirmations)
    passenger_id = uuid4()
    for price in range(3):
        token = await village.token(passenger_id, price=price)
        await village.let_lapse(token)
        await village.close(token)
        await village.let_lapse(token, DAY)
    assert [await run(lambda db: jobs.prune_confirmations(db, limit=2)) for _ in range(3)] == [2, 1, 0]


async def test_an_export_tells_of_questions_and_not_of_tokens(village: Village) -> None:
    passenger_id = uuid4()
    headers = bearer("passenger", passenger_id)
    nothing = await village.town.api.get("/v1/me/export", headers=headers)
    assert nothing.json()["sections"]["confirmations"] is None
    token = await village.token(passenger_id)
    await village.token(passenger_id, price=1)
    ride_id = await village.confirmed(passenger_id, token)
    told = (await village.town.api.get("/v1/me/export", headers=headers)).json()["sections"]["confirmations"]
    assert [one["ride_id"] for one in told] == [None, str(ride_id)]
    assert told[1]["asked"] == {
        "type": "comunidade",
        "lat": village.lat,
        "lng": village.lng,
        "origin": "Origem",
        "destination": "Destino",
        "price_cents": 1550,
    }


async def test_of_an_erased_person_stays_where_a_ride_began(village: Village) -> None:
    passenger_id, other_id = uuid4(), uuid4()
    used, unused = await village.token(passenger_id), await village.token(passenger_id, price=1)
    others = await village.token(other_id)
    await village.cancel(passenger_id, await village.confirmed(passenger_id, used))
    digest = (await village.question(used))["asked_hash"]
    answer = await village.town.api.delete("/v1/me", headers=bearer("passenger", passenger_id))
    assert answer.status_code == 204
    assert await village.question(unused) is None
    left = await village.question(used)
    assert "Origem" not in left["asked"]
    assert "Destino" not in left["asked"]
    assert str(village.lat) in left["asked"]
    assert left["asked_hash"] != digest, "an address could be guessed by it"
    assert "Origem" in (await village.question(others))["asked"]
