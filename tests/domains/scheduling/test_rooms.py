"""Rooms are subjects like workers: a session claims both or none."""

import asyncio
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from tests.domains.scheduling.clinic import Clinic, moment
from tests.domains.scheduling.races import claims_of


@pytest.fixture
async def rooms(clinic: Clinic) -> tuple[UUID, UUID]:
    """Two rooms for the clinic's service."""
    made = await clinic.room("Sala 1"), await clinic.room("Sala 2")
    await clinic.rooms_for(clinic.service_id, *made)
    return made


async def with_other_worker(clinic: Clinic) -> Clinic:
    """The same clinic with another worker."""
    return replace(clinic, worker_id=await clinic.worker())


async def test_booking_takes_a_room_and_cancel_releases_it(clinic: Clinic, rooms: tuple[UUID, UUID]) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    room_id = UUID(booked["room_id"])
    assert room_id in rooms
    (of_room,), (of_worker,) = await claims_of(clinic, room_id), await claims_of(clinic, clinic.worker_id)
    assert (of_room["session_id"], of_room["starts_at"]) == (of_worker["id"], of_worker["starts_at"])
    moved = await clinic.act(client, booked["appointment_id"], "reschedule", starts_at=clinic.at("11:00"))
    assert moved.json()["room_id"] == str(room_id)
    assert len(await claims_of(clinic, room_id)) == 1
    canceled = await clinic.act(client, booked["appointment_id"], "cancel")
    assert canceled.json()["room_id"] is None
    assert await claims_of(clinic, room_id) == []


async def test_when_all_rooms_are_taken_a_free_worker_is_not_enough(
    clinic: Clinic, rooms: tuple[UUID, UUID]
) -> None:
    second, third = await with_other_worker(clinic), await with_other_worker(clinic)
    taken = {(await one.booked(uuid4(), one.at("09:00")))["room_id"] for one in (clinic, second)}
    assert taken == {str(room_id) for room_id in rooms}
    lost = await third.book(uuid4(), third.at("09:30"))
    assert (lost.status_code, lost.json()["code"]) == (409, "slot_taken")
    assert moment(lost.json()["alternatives"][0]["starts_at"]) == moment(third.at("10:00"))
    explained = await third.call(
        "GET",
        "/availability/explain",
        service_id=third.service_id,
        worker_id=third.worker_id,
        starts_at=third.at("09:00"),
    )
    assert [reason["code"] for reason in explained["workers"][0]["reasons"]] == ["no_room"]
    assert await claims_of(clinic, third.worker_id) == []


async def test_retired_room_keeps_bookings_and_gets_no_new_ones(
    clinic: Clinic, rooms: tuple[UUID, UUID]
) -> None:
    booked = await clinic.booked(uuid4(), clinic.at("09:00"))
    retired = {"name": "Sala 1", "retired": True}
    await clinic.call("PUT", f"/rooms/{booked['room_id']}", retired)
    other = await clinic.booked(uuid4(), clinic.at("10:00"))
    assert other["room_id"] != booked["room_id"]
    assert len(await claims_of(clinic, UUID(booked["room_id"]))) == 1
    await clinic.call("PUT", f"/rooms/{other['room_id']}", retired)
    assert await clinic.starts() == [], "the service needs a room, and all are retired"
    assert (await clinic.book(uuid4(), clinic.at("14:00"))).status_code == 409


async def test_a_booking_keeps_its_room_when_the_service_has_others(
    clinic: Clinic, rooms: tuple[UUID, UUID]
) -> None:
    client = uuid4()
    booked = await clinic.booked(client, clinic.at("09:00"))
    new = await clinic.room("Sala 3")
    await clinic.rooms_for(clinic.service_id, new)
    seen = await clinic.call("GET", f"/appointments/{booked['appointment_id']}")
    assert seen["room_id"] == booked["room_id"]
    moved = await clinic.act(client, booked["appointment_id"], "reschedule", starts_at=clinic.at("09:30"))
    assert moved.json()["room_id"] == str(new)
    assert await claims_of(clinic, UUID(booked["room_id"])) == []
    await clinic.rooms_for(clinic.service_id)
    assert (await clinic.booked(uuid4(), clinic.at("14:00")))["room_id"] is None


async def test_a_closed_room_is_not_used_and_closing_lists_conflicts(
    clinic: Clinic, rooms: tuple[UUID, UUID]
) -> None:
    booked = await clinic.booked(uuid4(), clinic.at("09:00"))
    room_id = booked["room_id"]
    body = {"starts_at": clinic.at("08:00"), "ends_at": clinic.at("12:00"), "reason": "Pintura"}
    refused = await clinic.send("POST", f"/rooms/{room_id}/time-off", body)
    assert (refused.status_code, refused.json()["code"]) == (409, "agenda_taken")
    assert refused.json()["appointments"] == [booked["appointment_id"]]
    later = {"starts_at": clinic.at("10:00"), "ends_at": clinic.at("12:00")}
    closed = await clinic.call("POST", f"/rooms/{room_id}/time-off", later)
    assert (await clinic.booked(uuid4(), clinic.at("10:30")))["room_id"] != room_id
    span = {"from_": clinic.at("00:00"), "to": clinic.at("23:00")}
    listed = await clinic.call("GET", f"/rooms/{room_id}/time-off", **span)
    assert listed["time_off"] == [closed]
    await clinic.call("DELETE", f"/rooms/{room_id}/time-off/{closed['time_off_id']}")
    assert (await clinic.call("GET", f"/rooms/{room_id}/time-off", **span))["time_off"] == []
    assert (await clinic.send("POST", f"/rooms/{clinic.worker_id}/time-off", later)).status_code == 404


async def test_the_room_of_an_expired_hold_is_free_for_another_worker(clinic: Clinic) -> None:
    room_id = await clinic.room()
    await clinic.rooms_for(clinic.service_id, room_id)
    other = await with_other_worker(clinic)
    hold_id = await clinic.held(uuid4(), clinic.at("09:00"))
    assert (await other.book(uuid4(), other.at("09:00"))).status_code == 409
    await clinic.let_lapse(hold_id)
    assert (await other.booked(uuid4(), other.at("09:00")))["room_id"] == str(room_id)


async def test_services_that_share_rooms_never_deadlock(clinic: Clinic) -> None:
    """Rooms and workers are locked in one order for every service."""
    rooms = [await clinic.room(), await clinic.room()]
    other_service = await clinic.service()
    await clinic.rooms_for(clinic.service_id, *rooms)
    await clinic.rooms_for(other_service, *reversed(rooms))
    workers = [clinic.worker_id, *[await clinic.worker() for _ in range(3)]]
    for worker_id in workers[1::2]:
        await clinic.serves(worker_id, other_service)
    services = [clinic.service_id, other_service, clinic.service_id, other_service]
    wishes = [
        {"worker_id": worker_id, "service_id": service_id, "clock": clock}
        for clock in ("09:00", "09:30", "10:00", "10:30")
        for worker_id, service_id in zip(workers, services, strict=True)
    ]
    answers = await asyncio.gather(
        *(
            clinic.book(
                uuid4(),
                clinic.at(str(wish["clock"])),
                worker_id=wish["worker_id"],
                service_id=wish["service_id"],
            )
            for wish in wishes
        )
    )
    assert {answer.status_code for answer in answers} == {201, 409}
    assert await clinic.overlaps() == []
    for room_id in rooms:
        assert await claims_of(clinic, room_id) != []


async def test_the_last_room_has_one_winner(clinic: Clinic) -> None:
    room_id = await clinic.room()
    other_service = await clinic.service()
    for service_id in (clinic.service_id, other_service):
        await clinic.rooms_for(service_id, room_id)
    other = await clinic.worker()
    await clinic.serves(other, other_service)
    answers = await asyncio.gather(
        clinic.book(uuid4(), clinic.at("09:00")),
        clinic.book(uuid4(), clinic.at("09:30"), worker_id=other, service_id=other_service),
    )
    assert sorted(answer.status_code for answer in answers) == [201, 409]
    assert len(await claims_of(clinic, room_id)) == 1


async def test_concurrent_changes_of_a_services_rooms_both_succeed(clinic: Clinic) -> None:
    rooms = [await clinic.room() for _ in range(3)]
    body = {"room_ids": [str(room_id) for room_id in rooms]}
    path = f"/services/{clinic.service_id}/rooms"
    answers = await asyncio.gather(*(clinic.send("PUT", path, body) for _ in range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert sorted((await clinic.call("GET", path))["room_ids"]) == sorted(body["room_ids"])
