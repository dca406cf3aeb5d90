"""Appointments: what is free, booked, held and moved."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from catraca.client.http import Http
from catraca.client.models import Appointment, AppointmentPage, Hold, ServicePage, SlotPage

BASE = "/v1/scheduling"


class Scheduling:
    """Every change happens once, however often it had to be sent.

    A time that somebody else has is `Refused` with the code `slot_taken`; its `data` has the `alternatives`.
    """

    def __init__(self, http: Http) -> None:
        self._http: Final = http

    async def services(self, *, after: UUID | None = None, limit: int = 50) -> ServicePage:
        """What can be booked; `after` is the last page's `next`."""
        query = _given({"after": after, "limit": limit})
        return await self._http.ask("GET", f"{BASE}/services", ServicePage, query=query)

    async def slots(
        self,
        service_id: UUID,
        *,
        starts_from: datetime,
        starts_before: datetime,
        worker_id: UUID | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> SlotPage:
        """What is free, by any worker or one; `after` is the last page's `next`."""
        query = {
            "service_id": service_id,
            "from": starts_from.isoformat(),
            "to": starts_before.isoformat(),
            "worker_id": worker_id,
            "after": after,
            "limit": limit,
        }
        return await self._http.ask("GET", f"{BASE}/availability", SlotPage, query=_given(query))

    async def book(
        self,
        service_id: UUID,
        *,
        starts_at: datetime,
        worker_id: UUID | None = None,
        hold_id: UUID | None = None,
        key: str | None = None,
    ) -> Appointment:
        """That time with that worker, or with whoever is free; with a hold on it, for sure."""
        body = _wish(service_id, starts_at, worker_id) | _given({"hold_id": hold_id})
        return await self._http.ask("POST", f"{BASE}/appointments", Appointment, body=body, key=key)

    async def hold(
        self,
        service_id: UUID,
        *,
        starts_at: datetime,
        worker_id: UUID | None = None,
        key: str | None = None,
    ) -> Hold:
        """Keep a time for some minutes; `book` it with its `hold_id`."""
        body = _wish(service_id, starts_at, worker_id)
        return await self._http.ask("POST", f"{BASE}/holds", Hold, body=body, key=key)

    async def read(self, appointment_id: UUID) -> Appointment:
        return await self._http.ask("GET", f"{BASE}/appointments/{appointment_id}", Appointment)

    async def page(self, *, after: str | None = None, limit: int = 50) -> AppointmentPage:
        """One's own, in the order of their beginning; `after` is the last page's `next`."""
        query = _given({"after": after, "limit": limit})
        return await self._http.ask("GET", f"{BASE}/appointments", AppointmentPage, query=query)

    async def reschedule(
        self,
        appointment_id: UUID,
        *,
        starts_at: datetime,
        worker_id: UUID | None = None,
        key: str | None = None,
    ) -> Appointment:
        """To another time, or another worker; refused, it stays where it is."""
        body = _given({"starts_at": starts_at.isoformat(), "worker_id": worker_id})
        return await self._act(appointment_id, "reschedule", body, key)

    async def confirm(self, appointment_id: UUID, *, key: str | None = None) -> Appointment:
        return await self._act(appointment_id, "confirm", None, key)

    async def cancel(
        self, appointment_id: UUID, *, reason: str | None = None, key: str | None = None
    ) -> Appointment:
        return await self._act(appointment_id, "cancel", _given({"reason": reason}), key)

    async def _act(
        self, appointment_id: UUID, verb: str, body: dict[str, Any] | None, key: str | None
    ) -> Appointment:
        path = f"{BASE}/appointments/{appointment_id}/{verb}"
        return await self._http.ask("POST", path, Appointment, body=body, key=key)


def _wish(service_id: UUID, starts_at: datetime, worker_id: UUID | None) -> dict[str, Any]:
    return _given({"service_id": service_id, "starts_at": starts_at.isoformat(), "worker_id": worker_id})


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, UUID) else value
        for name, value in values.items()
        if value is not None
    }
