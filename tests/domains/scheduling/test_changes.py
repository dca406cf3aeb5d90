"""Appointments that move: to another time, another worker, another status."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment
from tests.domains.scheduling.past_appointments import move_back
from tests.domains.scheduling.races import (
    by_hand,
    claims_of,
    event_names,
    lock_worker,
    started,
    until_blocked_by,
)

# Like a move, without a lock of the other worker.
TO_ANOTHER_WORKER = """
    SET CONSTRAINTS ALL DEFERRED;
    UPDATE claims c SET subject_no = s.no FROM appointments a, subjects s
        WHERE a.id = '{appointment}' AND c.id = a.session_id AND s.id = '{other}';
    UPDATE appointments a SET worker_no = s.no FROM subjects s
        WHERE a.id = '{appointment}' AND s.id = '{other}'
"""


async def move(
    clinic: Clinic, client: UUID, booked: dict[str, Any], clock: str, **more: Any
) -> httpx.Response:
    return await clinic.act(
        client, booked["appointment_id"], "reschedule", starts_at=clinic.at(clock), **more
    )


async def seen(clinic: Clinic, booked: dict[str, Any]) -> dict[str, Any]:
    return await clinic.call("GET", f"/appointments/{booked['appointment_id']}")


async def test_refused_move_keeps_the_time(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    await clinic.booked(uuid4(), clinic.at("11:00"))
    taken = await move(clinic, client, booked, "11:30")
    assert (taken.status_code, taken.json()["code"]) == (409, "slot_taken")
    assert taken.json()["alternatives"]
    never = await move(clinic, client, booked, "20:00")
    assert (never.status_code, never.json()["faults"]) == (422, ["outside_hours"])
    assert await seen(clinic, booked) == booked
    assert await event_names(clinic, booked["appointment_id"]) == ["booked"]
    assert (await clinic.book(uuid4(), clinic.at("09:00"))).status_code == 409


async def test_a_move_publishes_the_old_time_and_moves_the_reminder(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    await clinic.act(client, booked["appointment_id"], "confirm")
    other = await clinic.worker()
    moved = (await move(clinic, client, booked, "10:00", worker_id=other)).json()
    assert (moved["worker_id"], moved["sequence"]) == (str(other), 2)
    assert moved["status"] == "BOOKED", "the confirmation was for the old time"
    assert await event_names(clinic, booked["appointment_id"]) == ["booked", "confirmed", "rescheduled"]
    (event,) = await clinic.sql(
        "SELECT body->>'previous_starts_at' AS was, body->>'previous_worker_id' AS worker FROM outbox"
        " WHERE aggregate_id = $1 AND routing_key = 'appointment.rescheduled'",
        UUID(booked["appointment_id"]),
    )
    assert (moment(event["was"]), event["worker"]) == (moment(clinic.at("09:00")), str(clinic.worker_id))
    (timer,) = await clinic.sql(
        "SELECT due_at FROM timers WHERE subject_id = $1", UUID(booked["appointment_id"])
    )
    assert (
        timer["due_at"] == moment(moved["starts_at"]) - clinic.parts.settings.scheduling.appointment_reminder
    )
    assert await claims_of(clinic, clinic.worker_id) == []


async def test_move_to_its_own_time_changes_nothing(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    again = await move(clinic, client, booked, "09:00", worker_id=clinic.worker_id)
    assert again.json() == booked
    assert await event_names(clinic, booked["appointment_id"]) == ["booked"]


async def test_a_worker_without_the_service_is_refused_clearly(clinic: Clinic) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    stranger = await clinic.worker()
    await clinic.serves(stranger)
    for worker_id in (stranger, uuid4()):
        refused = await move(clinic, client, booked, "10:00", worker_id=worker_id)
        assert (refused.status_code, refused.json()["code"]) == (422, "slot_not_offered")
        assert (refused.json()["faults"], refused.json()["alternatives"]) == (["no_worker"], [])
    assert await seen(clinic, booked) == booked


async def test_a_retired_workers_appointments_can_be_moved_or_canceled(clinic: Clinic) -> None:
    client = uuid4()
    booked = [await clinic.booked(client, clinic.at(clock)) for clock in ("09:00", "10:00")]
    other = await clinic.worker()
    retired = {"name": "Ana", "time_zone": "UTC", "retired": True}
    changed = await clinic.call("PUT", f"/workers/{clinic.worker_id}", retired)
    assert changed["outside"] == [one["appointment_id"] for one in booked], "the response lists them"
    refused = await move(clinic, client, booked[0], "11:00")
    assert refused.json()["faults"] == ["no_worker"]
    moved = await move(clinic, client, booked[0], "11:00", worker_id=other)
    assert moved.json()["worker_id"] == str(other)
    assert (await clinic.act(client, booked[1]["appointment_id"], "cancel")).status_code == 200
    assert await claims_of(clinic, clinic.worker_id) == []


async def test_concurrent_moves_to_one_time_have_one_winner(clinic: Clinic) -> None:
    clients = [uuid4() for _ in range(5)]
    clocks = ["09:00", "10:00", "11:00", "12:00", "13:00"]
    booked = [
        await clinic.booked(client, clinic.at(clock)) for client, clock in zip(clients, clocks, strict=True)
    ]
    answers = await asyncio.gather(
        *(move(clinic, client, one, "15:00") for client, one in zip(clients, booked, strict=True))
    )
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 4
    for answer, one in zip(answers, booked, strict=True):
        assert (await seen(clinic, one))["sequence"] == (1 if answer.is_success else 0)
    assert len(await claims_of(clinic, clinic.worker_id)) == 5


async def test_an_appointment_moved_meanwhile_is_read_again(clinic: Clinic) -> None:
    """A cancellation waits for the worker's lock, finds another worker, and waits for that one too."""
    client, other = uuid4(), await clinic.worker()
    booked = await clinic.booked(client, clinic.at("09:00"))
    appointment_id = UUID(booked["appointment_id"])
    async with by_hand(clinic) as writing:
        await lock_worker(writing, other)
        async with by_hand(clinic) as db:
            await lock_worker(db, clinic.worker_id)
            canceling = await started(clinic, clinic.act(client, appointment_id, "cancel"))
            assert not canceling.done()
            await db.execute(TO_ANOTHER_WORKER.format(other=other, appointment=appointment_id))
        await until_blocked_by(clinic, writing, canceling)
        assert not canceling.done()
    canceled = (await canceling).json()
    assert (canceled["status"], canceled["worker_id"]) == ("CANCELED", str(other))
    assert await claims_of(clinic, other) == await claims_of(clinic, clinic.worker_id) == []


@pytest.mark.parametrize("verb", ["cancel", "confirm", "no-show"])
async def test_repeated_changes_have_one_effect(clinic: Clinic, verb: str) -> None:
    booked = await clinic.booked(uuid4(), clinic.at("09:00"))
    if verb == "no-show":
        await move_back(clinic, booked["appointment_id"], days=7)
    answers = await asyncio.gather(
        *(clinic.act(clinic.operator, booked["appointment_id"], verb, role="operator") for _ in range(4))
    )
    status, event = {
        "cancel": ("CANCELED", "canceled"),
        "confirm": ("CONFIRMED", "confirmed"),
        "no-show": ("NO_SHOW", "no_show"),
    }[verb]
    assert {(answer.status_code, answer.json()["status"]) for answer in answers} == {(200, status)}
    assert len({answer.content for answer in answers}) == 1
    assert await event_names(clinic, booked["appointment_id"]) == ["booked", event]


async def test_ended_appointments_stay_ended(clinic: Clinic) -> None:
    client = uuid4()
    canceled = await clinic.booked(client, clinic.at("09:00"))
    await clinic.act(client, canceled["appointment_id"], "cancel", reason="Viagem")
    missed = await clinic.booked(client, clinic.at("10:00"))
    await move_back(clinic, missed["appointment_id"], days=7)
    await clinic.act(clinic.operator, missed["appointment_id"], "no-show", role="operator")
    for one, verbs in ((canceled, ("confirm", "no-show")), (missed, ("confirm", "cancel"))):
        before = await seen(clinic, one)
        for verb in (*verbs, "reschedule"):
            body = {"starts_at": clinic.at("14:00")} if verb == "reschedule" else {}
            refused = await clinic.act(clinic.operator, one["appointment_id"], verb, role="operator", **body)
            data = refused.json()
            assert (refused.status_code, data["status"], data["code"]) == (409, 409, "appointment_over"), verb
            assert data["appointment_status"] == before["status"]
        assert await seen(clinic, one) == before
    assert (await seen(clinic, canceled))["cancel_reason"] == "Viagem"
    other = await clinic.booked(uuid4(), clinic.at("11:00"))
    assert (await clinic.swap(other, canceled)).json()["code"] == "appointment_over"


async def test_clients_change_before_the_start_and_workers_also_after(clinic: Clinic) -> None:
    client = uuid4()
    booked = [await clinic.booked(client, clinic.at(clock)) for clock in ("09:00", "10:00")]
    for one in booked:
        await move_back(clinic, one["appointment_id"], days=7)
        canceled = await clinic.act(client, one["appointment_id"], "cancel")
        assert (canceled.status_code, canceled.json()["code"]) == (409, "appointment_begun")
        assert moment(canceled.json()["starts_at"]) == moment(one["starts_at"]) - timedelta(days=7)
        assert (await move(clinic, client, one, "14:00")).json()["code"] == "appointment_begun"
    by_operator = await clinic.act(
        clinic.operator, booked[0]["appointment_id"], "cancel", role="operator", reason="Doente"
    )
    assert (by_operator.json()["canceled_by"], by_operator.json()["cancel_reason"]) == ("operator", "Doente")
    moved = await clinic.act(
        clinic.operator,
        booked[1]["appointment_id"],
        "reschedule",
        role="operator",
        starts_at=clinic.at("14:00"),
    )
    assert moment(moved.json()["starts_at"]) == moment(clinic.at("14:00"))


async def test_no_show_needs_the_start_time_and_not_the_client(clinic: Clinic) -> None:
    client, account = uuid4(), uuid4()
    await clinic.api.get("/v1/me", headers=bearer("worker", account))
    own = await clinic.worker(user_id=str(account))
    booked = await clinic.booked(client, clinic.at("09:00"), worker_id=own)
    early = await clinic.act(account, booked["appointment_id"], "no-show", role="worker")
    assert (early.status_code, early.json()["code"]) == (409, "appointment_not_started")
    await move_back(clinic, booked["appointment_id"], days=7)
    assert (await clinic.act(client, booked["appointment_id"], "no-show")).status_code == 403
    missed = await clinic.act(account, booked["appointment_id"], "no-show", role="worker")
    assert missed.json()["status"] == "NO_SHOW"


async def test_workers_change_only_their_own_appointments(clinic: Clinic) -> None:
    client, account = uuid4(), uuid4()
    await clinic.api.get("/v1/me", headers=bearer("worker", account))
    own = await clinic.worker(user_id=str(account))
    appointment = await clinic.booked(client, clinic.at("09:00"), worker_id=own)
    other = await clinic.booked(client, clinic.at("11:00"))
    assert (await clinic.act(account, other["appointment_id"], "cancel", role="worker")).status_code == 404
    confirmed = await clinic.act(account, appointment["appointment_id"], "confirm", role="worker")
    assert confirmed.json()["status"] == "CONFIRMED"
    canceled = await clinic.act(account, appointment["appointment_id"], "cancel", role="worker")
    assert canceled.json()["canceled_by"] == "worker"
    # The account alone is not enough: the token must have the role worker.
    assert (await clinic.act(account, appointment["appointment_id"], "confirm")).status_code == 404


@pytest.mark.parametrize("verb", ["book", "reschedule", "cancel", "confirm"])
async def test_a_repeated_key_has_one_effect_and_the_same_answer(clinic: Clinic, verb: str) -> None:
    client, key = uuid4(), {"idempotency-key": uuid4().hex}
    booked = await clinic.booked(client, clinic.at("09:00")) if verb != "book" else None

    async def send() -> httpx.Response:
        if booked is None:
            return await clinic.book(client, clinic.at("09:00"), headers=key)
        body = {"starts_at": clinic.at("10:00")} if verb == "reschedule" else {}
        return await clinic.act(client, booked["appointment_id"], verb, headers=key, **body)

    answers = list(await asyncio.gather(*(send() for _ in range(3))))
    appointment_id = answers[0].json()["appointment_id"]
    after = await clinic.act(clinic.operator, appointment_id, "confirm", role="operator")
    assert after.status_code == (409 if verb == "cancel" else 200)
    answers.append(await send())
    assert len({answer.content for answer in answers}) == 1, "also after a later change"
    assert len({answer.status_code for answer in answers}) == 1
    names = await event_names(clinic, appointment_id)
    assert len(names) == len(set(names))
    other = await clinic.act(client, appointment_id, "cancel", headers=key, reason="Outro")
    assert other.status_code == (422 if verb == "cancel" else 200)


async def test_operators_changes_are_audited_with_their_actor(clinic: Clinic) -> None:
    client = uuid4()
    await clinic.api.get("/v1/me", headers=bearer("passenger", client))
    wish = clinic.wish(clinic.at("09:00"), client={"user_id": str(client)})
    booked = await clinic.call("POST", "/appointments", wish)
    other = await clinic.booked(uuid4(), clinic.at("11:00"))
    path = f"/appointments/{booked['appointment_id']}"
    await clinic.swap(booked, other)
    await clinic.call("POST", f"{path}/reschedule", {"starts_at": clinic.at("14:00")})
    await clinic.call("POST", f"{path}/confirm")
    await clinic.call("POST", f"{path}/cancel")
    rows = await clinic.sql(
        "SELECT action, actor_id FROM audit_log WHERE subject_kind = 'appointment' AND subject_id = $1"
        " AND actor_id IS NOT NULL ORDER BY at",
        booked["appointment_id"],
    )
    acts = ["booked", "swapped", "rescheduled", "confirmed", "canceled"]
    assert [(row["action"], row["actor_id"]) for row in rows] == [
        (f"appointment.{act}", clinic.operator) for act in acts
    ]


async def test_an_appointment_is_not_found_by_other_callers(clinic: Clinic) -> None:
    booked = await clinic.booked(uuid4(), clinic.at("09:00"))
    path = f"{BASE}/appointments/{booked['appointment_id']}"
    for role in ("passenger", "worker", "driver"):
        answer = await clinic.api.get(path, headers=bearer(role))
        missing = await clinic.api.get(f"{BASE}/appointments/{uuid4()}", headers=bearer(role))
        assert answer.status_code == missing.status_code == 404
        assert answer.json()["detail"] == missing.json()["detail"]
