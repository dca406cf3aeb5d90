"""Simulated patients: they book what is free; some reach for the same hour, some change plans."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from catraca.client.client import Client
from catraca.client.errors import ClientFailure, Refused
from catraca.client.models import Appointment, Service, Slot

if TYPE_CHECKING:
    from catraca.client.demo.city import City

# How many rides are asked for while one appointment is.
RIDES_A_VISIT = 4
# Who wants the same hour as somebody else this very moment, and who gives it up again.
RIVALS_SHARE = 0.4
FICKLE_SHARE = 0.3
AHEAD = timedelta(days=14)
SLOTS_LOOKED_AT = 20


class Patients:
    """Everybody who goes to whatever can be booked; where nothing can, nobody does."""

    def __init__(self, city: "City", chance: random.Random) -> None:
        self._city = city
        self._chance = chance

    async def visit(self, patient_id: UUID, rival_id: UUID) -> None:
        """One appointment, perhaps raced for by another."""
        try:
            await self._visit(patient_id, rival_id)
        except ClientFailure as failure:
            self._city.tally.note_failure(failure)

    async def _visit(self, patient_id: UUID, rival_id: UUID) -> None:
        async with self._client(patient_id) as patient, self._client(rival_id) as rival:
            services = (await patient.scheduling.services()).services
            if not services:
                return
            service = self._chance.choice(services)
            slot = await self._some_slot(patient, service)
            if slot is None:
                return
            wanting = [patient, rival] if self._chance.random() < RIVALS_SHARE else [patient]
            answers = await asyncio.gather(*(self._book(one, service, slot) for one in wanting))
            booked = [(one, got) for one, got in zip(wanting, answers, strict=True) if got is not None]
            if service.capacity == 1 and len(booked) > 1:
                self._city.tally.appointments["two on one hour"] += 1
            for one, appointment in booked:
                if self._chance.random() < FICKLE_SHARE:
                    await one.scheduling.cancel(appointment.appointment_id)
                    self._city.tally.appointments["canceled"] += 1

    async def _some_slot(self, patient: Client, service: Service) -> Slot | None:
        now = datetime.now(UTC)
        page = await patient.scheduling.slots(
            service.service_id, starts_from=now, starts_before=now + AHEAD, limit=SLOTS_LOOKED_AT
        )
        return self._chance.choice(page.slots) if page.slots else None

    async def _book(self, one: Client, service: Service, slot: Slot) -> Appointment | None:
        try:
            appointment = await one.scheduling.book(
                service.service_id, starts_at=slot.starts_at, worker_id=slot.worker_id
            )
        except Refused as refusal:
            if refusal.code != "slot_taken":
                raise
            self._city.tally.appointments["lost"] += 1
            return None
        self._city.tally.appointments["booked"] += 1
        return appointment

    def _client(self, person_id: UUID) -> Client:
        return Client(self._city.url, token=self._city.token_of(person_id, "passenger"))
