"""Appointments against real processes: two APIs, relay, dispatcher, notifier, and connected devices.

Races go through two API processes. The embedded stack has the PostgreSQL bus, the servers RabbitMQ.
"""

import asyncio
from dataclasses import replace
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from catraca.roles.parts import Parts
from tests.conftest import bearer
from tests.domains.notifications.devices import Device, opened
from tests.domains.scheduling.clinic import Clinic, moment, open_clinic
from tests.journeys.fleet.processes import PATIENCE_SECONDS, MatchingFleet

pytestmark = pytest.mark.xdist_group("rides")

DUE_NOW = "UPDATE timers SET due_at = clock_timestamp(), awake_at = clock_timestamp() WHERE subject_id = $1"


@pytest.fixture
async def clinic(here: MatchingFleet) -> Clinic:
    # The clinic uses only the database of these parts.
    return await open_clinic(here.patient, cast(Parts, here.office))


def at_the_other(clinic: Clinic, here: MatchingFleet) -> Clinic:
    return replace(clinic, api=here.hasty)


async def next_notice(device: Device, here: MatchingFleet) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_SECONDS):  # heartbeats never end
        (notice,) = await device.notices(1)
    return notice


async def test_client_and_worker_are_notified_of_each_change(here: MatchingFleet, clinic: Clinic) -> None:
    client, doctor = uuid4(), uuid4()
    url = str(here.patient.base_url).rstrip("/")
    as_doctor = bearer("worker", doctor)
    assert (await here.patient.get("/v1/me", headers=as_doctor)).status_code == 200
    worker_id = await clinic.worker(user_id=str(doctor))
    async with opened(url, bearer("passenger", client)) as phone, opened(url, as_doctor) as desk:

        async def both_receive(what: str) -> list[dict[str, Any]]:
            notices = [await next_notice(device, here) for device in (phone, desk)]
            assert [notice["type"] for notice in notices] == [what] * 2
            return [notice["data"] for notice in notices]

        booked = await clinic.booked(client, clinic.at("09:00"), worker_id=worker_id)
        for data in await both_receive("appointment.booked"):
            assert data["appointment_id"] == booked["appointment_id"]
            assert moment(data["starts_at"]) == moment(clinic.at("09:00"))
        other = at_the_other(clinic, here)
        appointment_id = booked["appointment_id"]
        await other.act(client, appointment_id, "reschedule", starts_at=clinic.at("09:30"))
        for data in await both_receive("appointment.rescheduled"):
            assert moment(data["starts_at"]) == moment(clinic.at("09:30"))
        await clinic.sql(DUE_NOW, UUID(appointment_id))
        await both_receive("appointment.reminder_due")
        assert (await clinic.act(doctor, appointment_id, "cancel", role="worker")).status_code == 200
        for data in await both_receive("appointment.canceled"):
            assert data["canceled_by"] == "worker"
    assert "09:30" in await other.starts(worker_id=worker_id)


async def test_one_of_many_clients_at_two_processes_gets_the_slot(
    here: MatchingFleet, clinic: Clinic
) -> None:
    clinics = [clinic, at_the_other(clinic, here)]
    answers = await asyncio.gather(
        *(clinics[number % 2].book(uuid4(), clinic.at("09:00")) for number in range(40))
    )
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 39
    for answer in answers:
        if answer.status_code == 409:
            nearest = [moment(slot["starts_at"]) for slot in answer.json()["alternatives"]]
            assert nearest[0] == moment(clinic.at("10:00"))
    assert await clinic.overlaps() == []


async def test_a_hold_ends_by_itself_and_its_time_is_free(here: MatchingFleet, clinic: Clinic) -> None:
    held = (await clinic.hold(uuid4(), clinic.at("09:00"))).json()
    assert "09:00" not in await clinic.starts()
    await clinic.let_lapse(held["hold_id"])
    await clinic.sql(DUE_NOW, UUID(held["hold_id"]))

    async def is_over() -> bool:
        rows = await clinic.sql("SELECT status FROM appointments WHERE id = $1", UUID(held["hold_id"]))
        return [row["status"] for row in rows] == ["EXPIRED"]

    await here.until(is_over)
    assert "09:00" in await clinic.starts()
    assert not await clinic.sql("SELECT FROM timers WHERE subject_id = $1", UUID(held["hold_id"]))


async def test_without_redis_the_answers_are_the_same(here: MatchingFleet, clinic: Clinic) -> None:
    client = uuid4()
    here.redis.kill()
    try:
        booked = await clinic.booked(client, clinic.at("09:00"))
        lost = await at_the_other(clinic, here).book(uuid4(), clinic.at("09:30"))
        assert (lost.status_code, lost.json()["code"]) == (409, "slot_taken")
        moved = await clinic.act(client, booked["appointment_id"], "reschedule", starts_at=clinic.at("10:30"))
        assert moved.status_code == 200, moved.text
        assert (await at_the_other(clinic, here).starts())[:3] == ["09:00", "09:30", "11:30"]
    finally:
        await here.redis.start()
        await here.until_redis_is_back()
