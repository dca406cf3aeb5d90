"""Holds: reserved for a client, limited in number, and expired by a timer."""

import asyncio
from datetime import timedelta
from uuid import UUID, uuid4

import httpx

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.model import Client
from catraca.domains.scheduling.holds import service as holds
from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment, open_clinic
from tests.domains.scheduling.races import (
    RULES,
    book_with,
    by_hand,
    claims_of,
    event_names,
    started,
    wish_for,
)

CLOCKS = ["09:00", "10:00", "11:00", "12:00", "13:00", "14:00", "15:00", "16:00"]


async def expire(clinic: Clinic, hold_id: UUID) -> None:
    """Run the hold's timer."""
    await clinic.parts.database.run(lambda db: holds.expire_hold(db, hold_id))


async def status_of(clinic: Clinic, appointment_id: object) -> str:
    rows = await clinic.sql("SELECT status FROM appointments WHERE id = $1", UUID(str(appointment_id)))
    return rows[0]["status"]


async def timers_of(clinic: Clinic, subject_id: object) -> set[str]:
    rows = await clinic.sql("SELECT kind FROM timers WHERE subject_id = $1", UUID(str(subject_id)))
    return {row["kind"].removeprefix("scheduling.") for row in rows}


async def test_a_hold_shows_its_slot_and_expiry(clinic: Clinic) -> None:
    answer = await clinic.hold(uuid4(), clinic.at("09:00"))
    held = answer.json()
    assert set(held) == {"hold_id", "service_id", "worker_id", "starts_at", "ends_at", "expires_at"}
    (row,) = await clinic.sql(
        "SELECT expires_at - created_at AS lasts, t.due_at = a.expires_at AS is_timed FROM appointments a"
        " JOIN timers t ON t.subject_id = a.id AND t.kind = 'scheduling.hold_due' WHERE a.id = $1",
        UUID(held["hold_id"]),
    )
    ttl = clinic.parts.settings.scheduling.hold_ttl
    assert ttl - timedelta(seconds=1) < row["lasts"] < ttl + timedelta(seconds=1)
    assert row["is_timed"]
    assert await event_names(clinic, held["hold_id"]) == []


async def test_a_hold_lasts_no_longer_than_its_time_is_ahead(api: httpx.AsyncClient, parts: Parts) -> None:
    clinic = await open_clinic(api, parts, duration_minutes=1, slot_step_minutes=1)
    day = [{"weekday": weekday, "start": "00:00", "end": "24:00"} for weekday in range(1, 8)]
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", day)
    next_ones = await clinic.slots(limit=2, **{"from": clinic.at("00:00", days=-3)})
    held = (await clinic.hold(uuid4(), next_ones[1]["starts_at"])).json()
    assert moment(held["expires_at"]) == moment(held["starts_at"])


async def test_holds_per_client_are_limited(clinic: Clinic) -> None:
    client = uuid4()
    first, *_ = [await clinic.held(client, clinic.at(clock)) for clock in CLOCKS[:3]]
    refused = await clinic.hold(client, clinic.at(CLOCKS[3]))
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_holds")
    assert refused.json()["limit"] == 3
    await clinic.held(uuid4(), clinic.at(CLOCKS[3]))
    # Booked, released and expired holds do not count.
    await clinic.booked(client, clinic.at(CLOCKS[0]), hold_id=first)
    fourth = await clinic.held(client, clinic.at(CLOCKS[4]))
    assert (await clinic.give_back(client, fourth)).status_code == 204
    fifth = await clinic.held(client, clinic.at(CLOCKS[4]))
    await clinic.let_lapse(fifth)
    await clinic.held(client, clinic.at(CLOCKS[5]))
    assert await status_of(clinic, fifth) == "EXPIRED"
    assert (await clinic.hold(client, clinic.at(CLOCKS[6]))).json()["code"] == "too_many_holds"


async def test_concurrent_holds_stay_within_the_clients_limit(clinic: Clinic) -> None:
    client = uuid4()
    workers = [clinic.worker_id, *[await clinic.worker() for _ in range(7)]]
    answers = await asyncio.gather(
        *(
            clinic.hold(client, clinic.at("09:00", days=days), worker_id=worker_id)
            for days, worker_id in enumerate(workers)
        )
    )
    assert sorted(answer.status_code for answer in answers) == [201] * 3 + [409] * 5
    assert {answer.json()["code"] for answer in answers if answer.is_error} == {"too_many_holds"}


async def test_concurrent_holds_of_a_client_are_numbered_in_turn(clinic: Clinic) -> None:
    client, other = uuid4(), await clinic.worker()
    await clinic.api.get("/v1/me", headers=bearer("passenger", client))
    async with by_hand(clinic) as db:
        await holds.create_hold(db, wish_for(clinic, "09:00"), Client(id=UserId(client)), rules=RULES)
        second = await started(clinic, clinic.hold(client, clinic.at("11:00"), worker_id=other))
        assert not second.done()
    assert (await second).status_code == 201, (await second).text


async def test_a_repeated_hold_is_one_hold(clinic: Clinic) -> None:
    client = uuid4()
    answers = await asyncio.gather(*(clinic.hold(client, clinic.at("09:00")) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert (await clinic.hold(client, clinic.at("09:00"), worker_id=None)).json() == answers[0].json()
    assert (await clinic.hold(uuid4(), clinic.at("09:00"))).json()["code"] == "slot_taken"


async def test_hold_is_booked_once_by_repeated_requests(clinic: Clinic) -> None:
    client = uuid4()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    answers = await asyncio.gather(
        *(clinic.book(client, clinic.at("09:00"), hold_id=hold_id) for _ in range(5))
    )
    assert {answer.status_code for answer in answers} == {201}
    assert {answer.json()["appointment_id"] for answer in answers} == {str(hold_id)}
    assert await event_names(clinic, hold_id) == ["booked"]
    assert await timers_of(clinic, hold_id) == {"reminder_due"}


async def test_another_clients_hold_is_not_found(clinic: Clinic) -> None:
    hold_id = await clinic.held(uuid4(), clinic.at("09:00"))
    thief = uuid4()
    assert (await clinic.book(thief, clinic.at("09:00"), hold_id=hold_id)).status_code == 404
    assert (await clinic.give_back(thief, hold_id)).status_code == 404
    assert (await clinic.book(thief, clinic.at("09:00"), hold_id=uuid4())).status_code == 404
    assert await status_of(clinic, hold_id) == "HELD"


async def test_a_booking_that_contradicts_its_hold_is_refused(clinic: Clinic) -> None:
    client, other = uuid4(), await clinic.service()
    worker_id = await clinic.worker()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    for fields, wrong in (
        ({"service_id": other}, ["service_id"]),
        ({"worker_id": worker_id}, ["worker_id"]),
        ({"starts_at": clinic.at("10:00")}, ["starts_at"]),
        ({"service_id": other, "worker_id": worker_id}, ["service_id", "worker_id"]),
    ):
        starts_at = fields.pop("starts_at", clinic.at("09:00"))
        answer = await clinic.book(client, starts_at, hold_id=hold_id, **fields)
        assert (answer.status_code, answer.json()["code"]) == (422, "hold_contradicted")
        assert answer.json()["fields"] == wrong
    # A booking without a worker uses the worker of the hold.
    booked = await clinic.booked(client, clinic.at("09:00"), worker_id=None, hold_id=hold_id)
    assert booked["worker_id"] == str(clinic.worker_id)


async def test_a_hold_ends_by_itself(clinic: Clinic) -> None:
    hold_id = await clinic.held(uuid4(), clinic.at("09:00"))
    await expire(clinic, hold_id)
    assert await status_of(clinic, hold_id) == "HELD", "it does not end before its time"
    await clinic.let_lapse(hold_id)
    for _ in range(2):
        await expire(clinic, hold_id)
    assert await status_of(clinic, hold_id) == "EXPIRED"
    assert await claims_of(clinic, clinic.worker_id) == []
    assert await event_names(clinic, hold_id) == []


async def test_the_timer_of_a_hold_that_was_booked_does_nothing(clinic: Clinic) -> None:
    client = uuid4()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    await clinic.booked(client, clinic.at("09:00"), hold_id=hold_id)
    await expire(clinic, hold_id)
    assert await status_of(clinic, hold_id) == "BOOKED"


async def test_a_released_hold_is_free_at_once_and_release_repeats(clinic: Clinic) -> None:
    client = uuid4()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    for _ in range(2):
        assert (await clinic.give_back(client, hold_id)).status_code == 204
    assert await timers_of(clinic, hold_id) == set()
    await clinic.booked(uuid4(), clinic.at("09:00"))
    # A released hold reserves nothing.
    assert (await clinic.book(client, clinic.at("09:00"), hold_id=hold_id)).status_code == 409


async def test_releasing_a_booked_hold_keeps_the_booking(clinic: Clinic) -> None:
    client = uuid4()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    await clinic.booked(client, clinic.at("09:00"), hold_id=hold_id)
    assert (await clinic.give_back(client, hold_id)).status_code == 204
    assert await status_of(clinic, hold_id) == "BOOKED"


async def test_hold_released_during_its_booking_stays_booked(clinic: Clinic) -> None:
    client = uuid4()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    async with by_hand(clinic) as db:
        await book_with(db, clinic, client, "09:00", hold_id)
        giving = await started(clinic, clinic.give_back(client, hold_id))
        assert not giving.done()
    assert (await giving).status_code == 204
    assert await status_of(clinic, hold_id) == "BOOKED"
    assert await timers_of(clinic, hold_id) == {"reminder_due"}
    assert len(await claims_of(clinic, clinic.worker_id)) == 1


async def test_a_hold_is_no_appointment_yet(clinic: Clinic) -> None:
    client = uuid4()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    path = f"{BASE}/appointments"
    headers = bearer("passenger", client)
    for _ in ("held", "released"):
        assert (await clinic.api.get(f"{path}/{hold_id}", headers=headers)).status_code == 404
        for verb in ("cancel", "confirm"):
            assert (await clinic.act(client, hold_id, verb)).status_code == 404
        moved = await clinic.act(client, hold_id, "reschedule", starts_at=clinic.at("10:00"))
        assert moved.status_code == 404
        assert (await clinic.api.get(path, headers=headers)).json()["appointments"] == []
        await clinic.give_back(client, hold_id)


async def test_operators_hold_for_clients_with_an_account_only(clinic: Clinic) -> None:
    client = uuid4()
    by = bearer("operator", clinic.operator)
    wish = clinic.wish(clinic.at("09:00"), client={"user_id": str(client)})
    assert (await clinic.send("POST", "/holds", wish, by=by)).status_code == 404
    await clinic.api.get("/v1/me", headers=bearer("passenger", client))
    held = await clinic.send("POST", "/holds", wish, by=by)
    assert held.status_code == 201, held.text
    await clinic.booked(client, clinic.at("09:00"), hold_id=held.json()["hold_id"])
    nameless = clinic.wish(clinic.at("11:00"), client={"name": "Seu Jorge"})
    assert (await clinic.send("POST", "/holds", nameless, by=by)).status_code == 422
    assert (await clinic.send("POST", "/holds", wish, by=bearer())).status_code == 403


async def test_a_hold_with_a_key_is_made_once(clinic: Clinic) -> None:
    client, key = uuid4(), {"idempotency-key": uuid4().hex}
    answers = [await clinic.hold(client, clinic.at("09:00"), headers=key) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].content == answers[1].content
    assert answers[1].headers["idempotency-replayed"] == "true"
    await clinic.give_back(client, answers[0].json()["hold_id"])
    again = await clinic.hold(client, clinic.at("09:00"), headers=key)
    assert again.content == answers[0].content, "also after the release"
    assert await claims_of(clinic, clinic.worker_id) == []


async def test_time_off_is_blocked_by_a_hold_until_it_expires(clinic: Clinic) -> None:
    hold_id = await clinic.held(uuid4(), clinic.at("09:00"))
    body = {"starts_at": clinic.at("08:00"), "ends_at": clinic.at("12:00")}
    path = f"/workers/{clinic.worker_id}/time-off"
    refused = await clinic.send("POST", path, body)
    assert (refused.status_code, refused.json()["holds"]) == (409, [str(hold_id)])
    assert refused.json()["appointments"] == refused.json()["time_off"] == []
    await clinic.let_lapse(hold_id)
    await clinic.call("POST", path, body)
    assert await status_of(clinic, hold_id) == "EXPIRED"
