"""Appointments by the client: find, hold, book, move and cancel, on a real server."""

import asyncio
from datetime import datetime, timedelta

import httpx
import pytest

from catraca.client import Appointment, Refused
from catraca.roles.parts import Parts
from tests.client.people import person
from tests.domains.scheduling.clinic import Clinic, open_clinic
from tests.servers import on_one_stack

pytestmark = on_one_stack


@pytest.fixture
async def clinic(api: httpx.AsyncClient, parts: Parts) -> Clinic:
    return await open_clinic(api, parts)


def at(clinic: Clinic, clock: str) -> datetime:
    return datetime.fromisoformat(clinic.at(clock))


async def test_appointment_from_free_slot_to_cancellation(api_url: str, clinic: Clinic) -> None:
    async with person(api_url, "passenger") as client:
        first = await client.scheduling.slots(
            clinic.service_id, starts_from=at(clinic, "00:00"), starts_before=at(clinic, "23:00"), limit=1
        )
        (slot,) = first.slots
        assert (slot.worker_id, slot.starts_at) == (clinic.worker_id, at(clinic, "09:00"))
        rest = await client.scheduling.slots(
            clinic.service_id,
            starts_from=at(clinic, "00:00"),
            starts_before=at(clinic, "23:00"),
            after=first.next,
        )
        assert (rest.slots[0].starts_at, rest.next) == (at(clinic, "09:30"), None)

        held = await client.scheduling.hold(
            clinic.service_id, starts_at=slot.starts_at, worker_id=slot.worker_id
        )
        booked = await client.scheduling.book(
            clinic.service_id, starts_at=slot.starts_at, hold_id=held.hold_id
        )
        assert (booked.appointment_id, booked.status) == (held.hold_id, "BOOKED")
        confirmed = await client.scheduling.confirm(booked.appointment_id)
        assert confirmed.status == "CONFIRMED"
        moved = await client.scheduling.reschedule(
            booked.appointment_id, starts_at=booked.starts_at + timedelta(hours=2)
        )
        assert (moved.starts_at, moved.status) == (at(clinic, "11:00"), "BOOKED")
        assert await client.scheduling.read(booked.appointment_id) == moved
        canceled = await client.scheduling.cancel(booked.appointment_id, reason="Viagem")
        assert canceled.status == "CANCELED"
        assert (await client.scheduling.page()).appointments == [canceled]


async def test_slot_goes_to_one_client_and_others_get_alternatives(api_url: str, clinic: Clinic) -> None:
    async def book() -> Appointment | Refused:
        async with person(api_url, "passenger") as client:
            try:
                return await client.scheduling.book(clinic.service_id, starts_at=at(clinic, "09:00"))
            except Refused as refused:
                return refused

    answers = await asyncio.gather(*(book() for _ in range(5)))
    lost = [one for one in answers if isinstance(one, Refused)]
    assert [(one.status, one.code) for one in lost] == [(409, "slot_taken")] * 4
    nearest = datetime.fromisoformat(lost[0].data["alternatives"][0]["starts_at"])
    assert nearest == at(clinic, "10:00")
