"""Faults of other booking systems, one test each."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import httpx
import pytest

from catraca.roles.parts import Parts
from tests.domains.scheduling.clinic import Clinic, moment, open_clinic
from tests.domains.scheduling.races import book_with, by_hand, claims_of, event_names, started
from tests.servers import on_one_stack, until


async def test_half_overlapping_bookings_are_refused(clinic: Clinic) -> None:
    await clinic.booked(uuid4(), clinic.at("09:00"))
    lost = await clinic.book(uuid4(), clinic.at("09:30"))
    assert (lost.status_code, lost.json()["code"]) == (409, "slot_taken")
    await clinic.booked(uuid4(), clinic.at("10:00"))
    assert await clinic.overlaps() == []


async def test_unconfirmed_bookings_cannot_overlap(clinic: Clinic) -> None:
    """An unconfirmed booking reserves its time like a confirmed one."""
    clients = [uuid4() for _ in range(4)]
    answers = await asyncio.gather(*(clinic.book(client, clinic.at("09:00")) for client in clients))
    won = [
        (client, answer.json())
        for client, answer in zip(clients, answers, strict=True)
        if answer.status_code == 201
    ]
    assert len(won) == 1
    ((client, booked),) = won
    confirmed = await clinic.act(client, booked["appointment_id"], "confirm")
    assert confirmed.json()["status"] == "CONFIRMED"
    assert (await clinic.book(uuid4(), clinic.at("09:00"))).status_code == 409


async def test_a_hold_is_not_ignored_on_any_path(clinic: Clinic) -> None:
    held = (await clinic.hold(uuid4(), clinic.at("10:00"))).json()
    for clock in ("09:30", "10:00", "10:30"):
        assert (await clinic.book(uuid4(), clinic.at(clock))).status_code == 409, clock
        assert (await clinic.hold(uuid4(), clinic.at(clock))).status_code == 409, clock
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("14:00"))
    moved = await clinic.act(client, booked["appointment_id"], "reschedule", starts_at=clinic.at("10:00"))
    assert (moved.status_code, moved.json()["code"]) == (409, "slot_taken")
    off = await clinic.send(
        "POST",
        f"/workers/{clinic.worker_id}/time-off",
        {"starts_at": clinic.at("08:00"), "ends_at": clinic.at("12:00")},
    )
    assert (off.status_code, off.json()["holds"]) == (409, [held["hold_id"]])


async def test_canceled_time_can_be_booked_again_and_again(
    clinic: Clinic,
) -> None:
    for _ in range(3):
        client = uuid4()
        booked = await clinic.booked(client, clinic.at("09:00"))
        assert (await clinic.act(client, booked["appointment_id"], "cancel")).status_code == 200
    await clinic.booked(uuid4(), clinic.at("09:00"))


@pytest.mark.parametrize("first", ["long", "short"])
async def test_an_appointment_strictly_inside_another_is_refused(
    api: httpx.AsyncClient, parts: Parts, first: str
) -> None:
    clinic = await open_clinic(api, parts, duration_minutes=180)
    short = await clinic.service(duration_minutes=15, slot_step_minutes=15)
    await clinic.serves(clinic.worker_id, clinic.service_id, short)
    wishes = [(clinic.service_id, "09:00"), (short, "10:15")]
    if first == "short":
        wishes.reverse()
    answers = [
        await clinic.book(uuid4(), clinic.at(clock), service_id=service_id) for service_id, clock in wishes
    ]
    assert [answer.status_code for answer in answers] == [201, 409]
    assert await clinic.overlaps() == []


async def test_the_last_seat_has_one_winner(api: httpx.AsyncClient, parts: Parts) -> None:
    clinic = await open_clinic(api, parts, capacity=3)
    await clinic.booked(uuid4(), clinic.at("09:00"))
    await clinic.booked(uuid4(), clinic.at("09:00"))
    answers = await asyncio.gather(*(clinic.book(uuid4(), clinic.at("09:00")) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 11
    seats = await clinic.sql(
        "SELECT seat_no FROM appointments WHERE service_id = $1 ORDER BY seat_no", clinic.service_id
    )
    assert [row["seat_no"] for row in seats] == [1, 2, 3]


async def test_two_appointments_swap_their_times_in_one_step(clinic: Clinic) -> None:
    clients = uuid4(), uuid4()
    nine = await clinic.booked(clients[0], clinic.at("09:00"))
    ten = await clinic.booked(clients[1], clinic.at("10:00"))
    swapped = await clinic.swap(nine, ten)
    assert swapped.status_code == 200, swapped.text
    times = {one["appointment_id"]: moment(one["starts_at"]) for one in swapped.json()["appointments"]}
    assert times == {
        nine["appointment_id"]: moment(clinic.at("10:00")),
        ten["appointment_id"]: moment(clinic.at("09:00")),
    }
    assert await clinic.overlaps() == []


async def test_a_hold_used_in_time_becomes_a_booking(clinic: Clinic) -> None:
    client = uuid4()
    held = (await clinic.hold(client, clinic.at("09:00"))).json()
    await clinic.call("PUT", f"/workers/{clinic.worker_id}/rules", [])
    await clinic.serves(clinic.worker_id)
    worker = {"name": "Ana", "time_zone": "America/Bahia", "retired": True}
    await clinic.call("PUT", f"/workers/{clinic.worker_id}", worker)
    service = {"name": "Consulta", "duration_minutes": 30, "retired": True}
    await clinic.call("PUT", f"/services/{clinic.service_id}", service)
    booked = await clinic.booked(client, clinic.at("09:00"), hold_id=held["hold_id"])
    assert moment(booked["ends_at"]) - moment(booked["starts_at"]) == timedelta(hours=1)


async def test_an_expired_hold_books_time_that_is_still_free(clinic: Clinic) -> None:
    client = uuid4()
    held = (await clinic.hold(client, clinic.at("09:00"))).json()
    await clinic.let_lapse(held["hold_id"])
    booked = await clinic.booked(client, clinic.at("09:00"), hold_id=held["hold_id"])
    assert booked["appointment_id"] != held["hold_id"]
    assert await event_names(clinic, booked["appointment_id"]) == ["booked"]


async def test_an_expired_hold_takes_nothing_from_a_later_client(clinic: Clinic) -> None:
    client = uuid4()
    held = (await clinic.hold(client, clinic.at("09:00"))).json()
    await clinic.let_lapse(held["hold_id"])
    await clinic.booked(uuid4(), clinic.at("09:00"))
    lost = await clinic.book(client, clinic.at("09:00"), hold_id=held["hold_id"])
    assert (lost.status_code, lost.json()["code"]) == (409, "slot_taken")
    nearest = lost.json()["alternatives"][0]
    await clinic.booked(client, nearest["starts_at"])


@on_one_stack
async def test_a_hold_used_at_the_last_moment_wins_before_its_commit(
    clinic: Clinic,
) -> None:
    """The hold was used in time by the database's clock; it may expire before the commit."""
    client = uuid4()
    hold_id = await clinic.held(client, clinic.at("09:00"))
    end = "UPDATE appointments SET expires_at = clock_timestamp() + interval '1.5 s' WHERE id = $1"
    await clinic.sql(end, hold_id)
    async with by_hand(clinic) as db:
        await book_with(db, clinic, client, "09:00", hold_id)
        is_over = "SELECT FROM appointments WHERE id = $1 AND expires_at <= clock_timestamp()"
        await until(lambda: clinic.sql(is_over, hold_id))
        other = await started(clinic, clinic.book(uuid4(), clinic.at("09:00")))
        assert not other.done()
    assert (await other).status_code == 409
    (row,) = await clinic.sql("SELECT status, session_id FROM appointments WHERE id = $1", hold_id)
    assert row["status"] == "BOOKED"
    assert [claim["id"] for claim in await claims_of(clinic, clinic.worker_id)] == [row["session_id"]]
