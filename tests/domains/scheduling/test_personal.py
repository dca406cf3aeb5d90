"""Personal data of clients and workers: exported completely, erased on request and after retention."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from catraca.domains.notifications import Notifier
from catraca.domains.notifications.model import SourceEvent
from catraca.domains.scheduling import jobs
from catraca.events import AppointmentBooked
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment
from tests.domains.scheduling.past_appointments import move_back
from tests.servers import until

TRACES = ("Maria", "5571", "moved away")
YEAR = timedelta(days=365)


async def export(clinic: Clinic, user_id: UUID, role: str = "passenger") -> Any:
    answer = await clinic.api.get("/v1/me/export", headers=bearer(role, user_id))
    assert answer.status_code == 200, answer.text
    return answer.json()["sections"]["appointments"]


async def erase(clinic: Clinic, user_id: UUID, role: str = "passenger") -> None:
    answer = await clinic.api.delete("/v1/me", headers=bearer(role, user_id))
    assert answer.status_code == 204, answer.text


async def one(clinic: Clinic, query: str, *args: object) -> Any:
    (row,) = await clinic.sql(query, *args)
    return row


async def appointment(clinic: Clinic, appointment_id: object) -> Any:
    return await one(clinic, "SELECT * FROM appointments WHERE id = $1", UUID(str(appointment_id)))


async def events(clinic: Clinic, appointment_id: object) -> list[tuple[str, str]]:
    rows = await clinic.sql(
        "SELECT routing_key, body FROM outbox WHERE aggregate_id = $1 ORDER BY id", UUID(str(appointment_id))
    )
    return [(row["routing_key"], row["body"]) for row in rows]


async def a_doctor(clinic: Clinic) -> tuple[UUID, UUID]:
    """Add a worker with an account; returns the ids of the user and the worker."""
    doctor = uuid4()
    assert (await clinic.api.get("/v1/me", headers=bearer("worker", doctor))).status_code == 200
    return doctor, await clinic.worker(name="Doutora Maria", user_id=str(doctor))


async def take_off(clinic: Clinic, worker_id: UUID, clock: str, reason: str) -> None:
    body = {"starts_at": clinic.at(clock), "ends_at": clinic.at("18:00"), "reason": reason}
    await clinic.call("POST", f"/workers/{worker_id}/time-off", body)


async def walk_in(clinic: Clinic, clock: str, name: str = "Maria Souza") -> str:
    answer = await clinic.api.post(
        f"{BASE}/appointments",
        json=clinic.wish(clinic.at(clock), client={"name": name, "contact": "+5571987654321"}),
        headers=bearer("operator", clinic.operator),
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["appointment_id"]


async def test_an_export_has_all_appointments_of_a_client(clinic: Clinic) -> None:
    client = uuid4()
    assert await export(clinic, client) is None
    first = await clinic.booked(client, clinic.at("09:00"))
    await clinic.act(client, first["appointment_id"], "cancel", reason="moved away")
    second = await clinic.booked(client, clinic.at("11:00"))
    held = (await clinic.hold(client, clinic.at("13:00"))).json()
    await clinic.booked(uuid4(), clinic.at("15:00"))
    kept = await export(clinic, client)
    assert kept["worker"] is None
    assert [(entry["appointment_id"], entry["status"]) for entry in kept["booked"]] == [
        (held["hold_id"], "HELD"),
        (second["appointment_id"], "BOOKED"),
        (first["appointment_id"], "CANCELED"),
    ]
    assert kept["booked"][2]["cancel_reason"] == "moved away"
    assert moment(kept["booked"][1]["starts_at"]) == moment(clinic.at("11:00"))


async def test_a_workers_export_has_no_client_data(clinic: Clinic) -> None:
    doctor, worker_id = await a_doctor(clinic)
    client = uuid4()
    await clinic.booked(client, clinic.at("09:00"), worker_id=worker_id)
    await take_off(clinic, worker_id, "16:00", "own doctor")
    headers = bearer("worker", doctor)
    await clinic.api.post(f"{BASE}/workers/{worker_id}/calendar-link", headers=headers)
    answer = await clinic.api.get("/v1/me/export", headers=headers)
    kept = answer.json()["sections"]["appointments"]
    assert kept["booked"] == []
    assert (kept["worker"]["name"], kept["worker"]["time_zone"]) == ("Doutora Maria", "UTC")
    assert [off["reason"] for off in kept["worker"]["time_off"]] == ["own doctor"]
    assert kept["worker"]["services"] == [str(clinic.service_id)]
    assert len(kept["worker"]["rules"]) == 7
    assert kept["worker"]["calendar_linked"] is True
    assert str(client) not in answer.text


async def test_erasure_cancels_a_clients_future_appointments(clinic: Clinic) -> None:
    client = uuid4()
    booked = (await clinic.booked(client, clinic.at("09:00")))["appointment_id"]
    confirmed = (await clinic.booked(client, clinic.at("11:00")))["appointment_id"]
    await clinic.act(client, confirmed, "confirm")
    held = (await clinic.hold(client, clinic.at("13:00"))).json()["hold_id"]
    others = (await clinic.booked(uuid4(), clinic.at("15:00")))["appointment_id"]
    await erase(clinic, client)
    assert [(await appointment(clinic, each))["status"] for each in (booked, confirmed, held, others)] == [
        "CANCELED",
        "CANCELED",
        "EXPIRED",
        "BOOKED",
    ]
    free = await clinic.starts()
    assert {"09:00", "11:00", "13:00"} <= set(free)
    assert "15:00" not in free
    for each in (booked, confirmed):
        key, body = (await events(clinic, each))[-1]
        assert key == "appointment.canceled"
        assert '"canceled_by":"client"' in body.replace(" ", "")
    assert await events(clinic, held) == []
    ids = [UUID(each) for each in (booked, confirmed, held)]
    assert not await clinic.sql("SELECT FROM timers WHERE subject_id = ANY ($1::uuid[])", ids)


async def test_past_appointments_keep_time_and_service_after_erasure(clinic: Clinic) -> None:
    client = uuid4()
    past = (await clinic.booked(client, clinic.at("09:00")))["appointment_id"]
    await move_back(clinic, past, days=10)
    off = (await clinic.booked(client, clinic.at("09:00")))["appointment_id"]
    await clinic.act(client, off, "cancel", reason="moved away")
    before = await appointment(clinic, past)
    await erase(clinic, client)
    assert await appointment(clinic, past) == before
    left = await appointment(clinic, off)
    assert (left["status"], left["client_id"], left["cancel_reason"]) == ("CANCELED", client, None)
    assert left["service_id"] == clinic.service_id
    seen = await clinic.api.get(f"{BASE}/appointments/{off}", headers=bearer("operator", clinic.operator))
    assert "moved away" not in seen.text


async def test_an_erased_workers_clients_keep_their_appointments(clinic: Clinic) -> None:
    doctor, worker_id = await a_doctor(clinic)
    client = uuid4()
    kept = (await clinic.booked(client, clinic.at("09:00"), worker_id=worker_id))["appointment_id"]
    off = (await clinic.booked(client, clinic.at("11:00"), worker_id=worker_id))["appointment_id"]
    as_doctor = bearer("worker", doctor)
    await clinic.act(doctor, off, "cancel", role="worker", reason="I moved away")
    await take_off(clinic, worker_id, "16:00", "Maria is ill")
    linked = await clinic.api.post(f"{BASE}/workers/{worker_id}/calendar-link", headers=as_doctor)
    path = linked.json()["path"]
    assert (await clinic.api.get(path)).status_code == 200
    await erase(clinic, doctor, "worker")
    assert (await clinic.api.get(path)).status_code == 404
    row = await one(clinic, "SELECT * FROM subjects WHERE id = $1", worker_id)
    assert (row["name"], row["user_id"], row["feed_hash"], row["retired"]) == ("-", None, None, True)
    assert not await clinic.sql("SELECT FROM claims WHERE subject_no = $1 AND reason IS NOT NULL", row["no"])
    assert (await appointment(clinic, off))["cancel_reason"] is None
    assert (await appointment(clinic, kept))["status"] == "BOOKED"
    assert await clinic.slots(worker_id=worker_id) == []
    assert (await clinic.book(uuid4(), clinic.at("13:00"), worker_id=worker_id)).status_code >= 400
    whole = [
        await clinic.sql("SELECT s::text AS row FROM subjects s WHERE id = $1", worker_id),
        await clinic.sql("SELECT c::text AS row FROM claims c WHERE subject_no = $1", row["no"]),
        await clinic.sql("SELECT a::text AS row FROM appointments a WHERE worker_no = $1", row["no"]),
        await clinic.sql("SELECT l::text AS row FROM audit_log l WHERE subject_id = $1", str(worker_id)),
    ]
    text = " ".join(each["row"] for rows in whole for each in rows)
    assert not [trace for trace in (*TRACES, "ill") if trace in text]


async def test_erasing_twice_changes_nothing_more(clinic: Clinic) -> None:
    client = uuid4()
    booked = (await clinic.booked(client, clinic.at("09:00")))["appointment_id"]
    await erase(clinic, client)
    before = await appointment(clinic, booked)
    again = await clinic.api.delete(f"/v1/users/{client}", headers=bearer("operator"))
    assert again.status_code == 204
    assert await appointment(clinic, booked) == before


async def test_erasures_and_bookings_do_not_deadlock(clinic: Clinic) -> None:
    """Agendas are locked in one order, so transactions never deadlock."""
    second = await clinic.worker()
    first = clinic.worker_id
    clients = [uuid4() for _ in range(6)]
    for number, client in enumerate(clients):
        # Half of the clients have them in the reverse order of agendas.
        for hour, worker_id in ((9, second), (10, first)) if number % 2 else ((9, first), (10, second)):
            starts_at = clinic.at(f"{hour:02}:00", days=number)
            await clinic.booked(client, starts_at, worker_id=worker_id)
    retried = await one(clinic, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    answers = await asyncio.gather(
        *(clinic.api.delete("/v1/me", headers=bearer("passenger", client)) for client in clients),
        *(
            clinic.book(uuid4(), clinic.at(f"{hour:02}:00", days=number), worker_id=None)
            for number in range(6)
            for hour in (9, 10, 12)
        ),
    )
    assert {answer.status_code for answer in answers} <= {201, 204, 409}
    assert [answer.status_code for answer in answers[:6]] == [204] * 6
    after = await one(clinic, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert after == retried
    assert await clinic.overlaps() == []


async def test_booking_for_a_client_does_not_block_their_erasure(clinic: Clinic) -> None:
    """The booking locks the agenda and then the user's row; the erasure needs both too."""
    client = uuid4()
    headers = bearer("passenger", client)
    named = {"name": "Maria", "email": f"maria.{client}@example.com"}
    assert (await clinic.api.patch("/v1/me", json=named, headers=headers)).status_code == 200
    await clinic.booked(client, clinic.at("09:00"))

    async def one_waits() -> bool:
        waiting = (
            "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(await clinic.sql(waiting))

    async with clinic.parts.database.transaction() as db:
        await db.execute("SELECT FROM subjects WHERE id = $1 FOR NO KEY UPDATE", clinic.worker_id)
        leaving = asyncio.create_task(clinic.api.delete("/v1/me", headers=headers))
        await until(one_waits)
        # Like the foreign key from an appointment to its client.
        await db.execute("SELECT FROM users WHERE id = $1 FOR KEY SHARE NOWAIT", client)
    assert (await leaving).status_code == 204


@pytest.fixture
async def pruned(clinic: Clinic) -> Clinic:
    """The clinic after the pruning of rows of other tests."""
    run = clinic.parts.database.run
    while await run(jobs.prune_holds) or await run(lambda db: jobs.erase_walk_ins(db, older_than=YEAR)):
        pass
    return clinic


async def test_clients_without_an_account_are_erased_after_retention(pruned: Clinic) -> None:
    clinic = pruned
    old, young = await walk_in(clinic, "09:00"), await walk_in(clinic, "11:00")
    off = await walk_in(clinic, "13:00")
    await clinic.act(clinic.operator, off, "cancel", role="operator", reason="Maria moved away")
    for each, days in ((old, 370), (young, 360), (off, 370)):
        await move_back(clinic, each, days=days)
    before = await appointment(clinic, old)

    async def erase_old() -> int:
        return await clinic.parts.database.run(lambda db: jobs.erase_walk_ins(db, older_than=YEAR))

    assert [await erase_old(), await erase_old()] == [2, 0]
    after = await appointment(clinic, old)
    assert dict(after) == dict(before) | {"client_name": "-", "client_contact": None}
    assert (await appointment(clinic, off))["cancel_reason"] is None
    assert (await appointment(clinic, young))["client_name"] == "Maria Souza"


async def test_retention_erases_a_bounded_number_at_a_time(pruned: Clinic) -> None:
    clinic = pruned
    for clock in ("09:00", "11:00", "13:00"):
        await move_back(clinic, await walk_in(clinic, clock), days=370)
    run = clinic.parts.database.run
    counts = [await run(lambda db: jobs.erase_walk_ins(db, older_than=YEAR, limit=2)) for _ in range(3)]
    assert counts == [2, 1, 0]


async def test_unused_holds_are_deleted_after_a_day(pruned: Clinic) -> None:
    clinic, client = pruned, uuid4()
    old, young, booked = [
        (await clinic.hold(client, clinic.at(clock))).json()["hold_id"]
        for clock in ("09:00", "11:00", "13:00")
    ]
    await clinic.booked(client, clinic.at("13:00"), hold_id=booked)
    for each in (old, young):
        answer = await clinic.api.delete(f"{BASE}/holds/{each}", headers=bearer("passenger", client))
        assert answer.status_code == 204
    for each, hours in ((old, 25), (young, 23), (booked, 25)):
        await clinic.sql(
            "UPDATE appointments SET changed_at = changed_at - $2 * interval '1 hour' WHERE id = $1",
            UUID(each),
            hours,
        )
    run = clinic.parts.database.run
    assert [await run(jobs.prune_holds), await run(jobs.prune_holds)] == [1, 0]
    left = await clinic.sql("SELECT id::text FROM appointments WHERE client_id = $1", client)
    assert {row["id"] for row in left} == {young, booked}


async def test_erasure_and_pruning_queries_use_an_index(clinic: Clinic) -> None:
    """The housekeeper runs these queries every minute."""
    queries = {
        "appointments_of_walk_ins": "SELECT id FROM appointments WHERE client_name <> '-'"
        " AND ends_at < (SELECT clock_timestamp() - interval '1 year') ORDER BY ends_at LIMIT 1000",
        "appointments_expired": "SELECT id FROM appointments WHERE status = 'EXPIRED'"
        " AND changed_at < (SELECT clock_timestamp() - interval '1 day') ORDER BY changed_at LIMIT 1000",
    }
    async with clinic.parts.database.transaction() as db:
        await db.execute("SET LOCAL enable_seqscan = off")
        for index, query in queries.items():
            plan = await db.fetch(f"EXPLAIN {query}")
            assert index in "\n".join(row[0] for row in plan)


async def test_an_erased_workers_name_is_removed_from_notifications(clinic: Clinic) -> None:
    """The notification is written here as the notifier writes it."""
    doctor, worker_id = await a_doctor(clinic)
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"), worker_id=worker_id)
    ((_, body),) = await events(clinic, booked["appointment_id"])
    event = msgspec.json.decode(body, type=AppointmentBooked)

    async def no_announcement(payload: bytes) -> object:
        return payload

    notifier = Notifier(no_announcement, currency="BRL")
    await clinic.parts.database.run(lambda db: notifier.notify(db, [SourceEvent(uuid4(), event)]))
    query = "SELECT data::text AS data FROM notifications WHERE user_id = $1"
    assert "Maria" in (await one(clinic, query, client))["data"]
    await erase(clinic, doctor, "worker")
    assert "Maria" not in (await one(clinic, query, client))["data"]
