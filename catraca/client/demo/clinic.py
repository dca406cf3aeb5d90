"""Simulated patients: they book free slots; some compete for the same slot, some cancel."""

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

# Number of ride requests for each appointment.
RIDES_A_VISIT = 4
# Share of slots that two patients want at once, and of appointments that are canceled.
RIVALS_SHARE = 0.4
FICKLE_SHARE = 0.3
# Another patient was faster, or this one has another appointment then, or as many as a patient may have.
LOST = ("slot_taken", "client_busy", "too_many_appointments")
AHEAD = timedelta(days=14)
SLOTS_READ = 20


class Patients:
    """Patients of all services; idle without a service or a free slot."""

    def __init__(self, city: "City", chance: random.Random) -> None:
        self._city = city
        self._chance = chance

    async def visit(self, patient_id: UUID, rival_id: UUID) -> None:
        """Book one appointment; sometimes a rival wants the same slot."""
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
            slot = await self._random_slot(patient, service)
            if slot is None:
                return
            clients = [patient, rival] if self._chance.random() < RIVALS_SHARE else [patient]
            results = await asyncio.gather(*(self._book(client, service, slot) for client in clients))
            booked = [pair for pair in zip(clients, results, strict=True) if pair[1] is not None]
            if service.capacity == 1 and len(booked) > 1:
                self._city.tally.appointments["double booked"] += 1
            for client, appointment in booked:
                if appointment is not None and self._chance.random() < FICKLE_SHARE:
                    await client.scheduling.cancel(appointment.appointment_id)
                    self._city.tally.appointments["canceled"] += 1

    async def _random_slot(self, patient: Client, service: Service) -> Slot | None:
        now = datetime.now(UTC)
        page = await patient.scheduling.slots(
            service.service_id, starts_from=now, starts_before=now + AHEAD, limit=SLOTS_READ
        )
        return self._chance.choice(page.slots) if page.slots else None

    async def _book(self, client: Client, service: Service, slot: Slot) -> Appointment | None:
        try:
            appointment = await client.scheduling.book(
                service.service_id, starts_at=slot.starts_at, worker_id=slot.worker_id
            )
        except Refused as refusal:
            if refusal.code not in LOST:
                raise
            self._city.tally.appointments["lost"] += 1
            return None
        self._city.tally.appointments["booked"] += 1
        return appointment

    def _client(self, person_id: UUID) -> Client:
        return Client(self._city.url, token=self._city.token_of(person_id, "passenger"))
