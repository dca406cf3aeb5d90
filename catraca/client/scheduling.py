"""Services, free slots, holds and appointments."""

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from catraca.client.http import Http, without_none
from catraca.client.models import Appointment, AppointmentPage, Hold, ServicePage, SlotPage

BASE = "/v1/scheduling"


class Scheduling:
    """Every change happens once, however often it is sent.

    A slot that is taken is `Refused` with the code `slot_taken`; its `data` has `alternatives`.
    """

    def __init__(self, http: Http) -> None:
        self._http: Final = http

    async def services(self, *, after: UUID | None = None, limit: int = 50) -> ServicePage:
        """The services; `after` is the last page's `next`."""
        query = without_none({"after": after, "limit": limit})
        return await self._http.request("GET", f"{BASE}/services", ServicePage, query=query)

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
        """Free slots of one worker or all; `after` is the last page's `next`."""
        query = {
            "service_id": service_id,
            "from": starts_from.isoformat(),
            "to": starts_before.isoformat(),
            "worker_id": worker_id,
            "after": after,
            "limit": limit,
        }
        return await self._http.request("GET", f"{BASE}/availability", SlotPage, query=without_none(query))

    async def book(
        self,
        service_id: UUID,
        *,
        starts_at: datetime,
        worker_id: UUID | None = None,
        hold_id: UUID | None = None,
        key: str | None = None,
    ) -> Appointment:
        """Book a slot with this worker, or with any free one; a hold guarantees it."""
        body = _slot_body(service_id, starts_at, worker_id) | without_none({"hold_id": hold_id})
        return await self._http.request("POST", f"{BASE}/appointments", Appointment, body=body, key=key)

    async def hold(
        self,
        service_id: UUID,
        *,
        starts_at: datetime,
        worker_id: UUID | None = None,
        key: str | None = None,
    ) -> Hold:
        """Reserve a slot for some minutes; `book` it with its `hold_id`."""
        body = _slot_body(service_id, starts_at, worker_id)
        return await self._http.request("POST", f"{BASE}/holds", Hold, body=body, key=key)

    async def read(self, appointment_id: UUID) -> Appointment:
        return await self._http.request("GET", f"{BASE}/appointments/{appointment_id}", Appointment)

    async def page(self, *, after: str | None = None, limit: int = 50) -> AppointmentPage:
        """The caller's appointments by start; `after` is the last page's `next`."""
        query = without_none({"after": after, "limit": limit})
        return await self._http.request("GET", f"{BASE}/appointments", AppointmentPage, query=query)

    async def reschedule(
        self,
        appointment_id: UUID,
        *,
        starts_at: datetime,
        worker_id: UUID | None = None,
        key: str | None = None,
    ) -> Appointment:
        """Move to another slot or worker; if refused, the appointment is unchanged."""
        body = without_none({"starts_at": starts_at.isoformat(), "worker_id": worker_id})
        return await self._act(appointment_id, "reschedule", body, key)

    async def confirm(self, appointment_id: UUID, *, key: str | None = None) -> Appointment:
        return await self._act(appointment_id, "confirm", None, key)

    async def cancel(
        self, appointment_id: UUID, *, reason: str | None = None, key: str | None = None
    ) -> Appointment:
        return await self._act(appointment_id, "cancel", without_none({"reason": reason}), key)

    async def _act(
        self, appointment_id: UUID, verb: str, body: dict[str, Any] | None, key: str | None
    ) -> Appointment:
        path = f"{BASE}/appointments/{appointment_id}/{verb}"
        return await self._http.request("POST", path, Appointment, body=body, key=key)


def _slot_body(service_id: UUID, starts_at: datetime, worker_id: UUID | None) -> dict[str, Any]:
    return without_none(
        {"service_id": service_id, "starts_at": starts_at.isoformat(), "worker_id": worker_id}
    )
