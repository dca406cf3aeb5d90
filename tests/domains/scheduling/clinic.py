"""A clinic over HTTP: workers, services and clients. Each test has its own workers."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import httpx

from catraca.roles.parts import Parts
from tests.conftest import bearer

BASE = "/v1/scheduling"
ALL_WEEK = [{"weekday": weekday, "start": "09:00", "end": "18:00"} for weekday in range(1, 8)]


@dataclass(frozen=True)
class Clinic:
    """`day` is a near day without bookings; its hours are 09:00 to 18:00 in `zone`."""

    api: httpx.AsyncClient
    parts: Parts
    operator: UUID
    worker_id: UUID
    service_id: UUID
    zone: str = "UTC"

    @property
    def day(self) -> date:
        return datetime.now(ZoneInfo(self.zone)).date() + timedelta(days=3)

    def at(self, clock: str, *, days: int = 0) -> str:
        """A local time on `day`, or `days` later, as an ISO string."""
        local = datetime.combine(self.day + timedelta(days=days), time.fromisoformat(clock))
        return local.replace(tzinfo=ZoneInfo(self.zone)).isoformat()

    async def worker(
        self, *, zone: str = "UTC", rules: Sequence[dict[str, Any]] = ALL_WEEK, **more: Any
    ) -> UUID:
        """Add a worker to the clinic's service."""
        body = {"name": "Ana", "time_zone": zone, **more}
        worker_id = UUID((await self.call("POST", "/workers", body))["worker_id"])
        await self.call("PUT", f"/workers/{worker_id}/rules", list(rules))
        await self.serves(worker_id, self.service_id)
        return worker_id

    async def serves(self, worker_id: UUID, *service_ids: UUID) -> None:
        await self.call(
            "PUT", f"/workers/{worker_id}/services", {"service_ids": [str(one) for one in service_ids]}
        )

    async def service(self, **terms: Any) -> UUID:
        made = await self.call("POST", "/services", service_body(**terms))
        return UUID(made["service_id"])

    async def room(self, name: str = "Sala 1") -> UUID:
        return UUID((await self.call("POST", "/rooms", {"name": name}))["room_id"])

    async def rooms_for(self, service_id: UUID, *room_ids: UUID) -> None:
        body = {"room_ids": [str(one) for one in room_ids]}
        await self.call("PUT", f"/services/{service_id}/rooms", body)

    async def book(
        self, client: UUID, starts_at: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        """Book as the client with the clinic's worker; `worker_id=None` books with any worker."""
        return await self.api.post(
            f"{BASE}/appointments",
            json=self.wish(starts_at, **more),
            headers=bearer("passenger", client) | (headers or {}),
        )

    async def booked(self, client: UUID, starts_at: str, **more: Any) -> dict[str, Any]:
        answer = await self.book(client, starts_at, **more)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def hold(
        self, client: UUID, starts_at: str, *, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        return await self.api.post(
            f"{BASE}/holds",
            json=self.wish(starts_at, **more),
            headers=bearer("passenger", client) | (headers or {}),
        )

    async def held(self, client: UUID, starts_at: str, **more: Any) -> UUID:
        answer = await self.hold(client, starts_at, **more)
        assert answer.status_code == 201, answer.text
        return UUID(answer.json()["hold_id"])

    async def give_back(self, client: UUID, hold_id: object) -> httpx.Response:
        return await self.send("DELETE", f"/holds/{hold_id}", by=bearer("passenger", client))

    def wish(self, starts_at: str, **more: Any) -> dict[str, Any]:
        body = {
            "service_id": str(self.service_id),
            "worker_id": str(self.worker_id),
            "starts_at": starts_at,
            **{name: str(value) if isinstance(value, UUID) else value for name, value in more.items()},
        }
        return {name: value for name, value in body.items() if value is not None}

    async def act(
        self,
        client: UUID,
        appointment_id: object,
        verb: str,
        /,
        *,
        role: str = "passenger",
        headers: dict[str, str] | None = None,
        **body: Any,
    ) -> httpx.Response:
        """Send a verb: `reschedule`, `cancel`, `confirm`, `no-show` or `swap`."""
        return await self.api.post(
            f"{BASE}/appointments/{appointment_id}/{verb}",
            json={name: str(value) if isinstance(value, UUID) else value for name, value in body.items()}
            or None,
            headers=bearer(role, client) | (headers or {}),
        )

    async def swap(self, one: dict[str, Any], other: dict[str, Any]) -> httpx.Response:
        """Swap two appointments as an operator."""
        ids = one["appointment_id"], other["appointment_id"]
        return await self.act(self.operator, ids[0], "swap", role="operator", appointment_id=ids[1])

    async def slots(self, *, days: int = 1, **query: Any) -> list[dict[str, Any]]:
        """The free slots of `days` days from `day`."""
        params = {
            "service_id": self.service_id,
            "worker_id": self.worker_id,
            "from": self.at("00:00"),
            "to": self.at("00:00", days=days),
            "limit": 500,
            **query,
        }
        given = {name: str(value) for name, value in params.items() if value is not None}
        answer = await self.api.get(
            f"{BASE}/availability", params=given, headers=bearer("passenger", uuid4())
        )
        assert answer.status_code == 200, answer.text
        return answer.json()["slots"]

    async def starts(self, **query: Any) -> list[str]:
        """The local starts of the free slots, like `09:00`."""
        zone = ZoneInfo(self.zone)
        found = [datetime.fromisoformat(slot["starts_at"]) for slot in await self.slots(**query)]
        return [moment.astimezone(zone).strftime("%H:%M") for moment in found]

    async def send(
        self, method: str, path: str, body: Any = None, *, by: dict[str, str] | None = None, **query: Any
    ) -> httpx.Response:
        """Send a request as an operator, or with the given headers."""
        return await self.api.request(
            method,
            f"{BASE}{path}",
            json=body,
            params={name.rstrip("_"): str(value) for name, value in query.items()},
            headers=by or bearer("operator", self.operator),
        )

    async def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """Send an operator's request, which must succeed."""
        answer = await self.send(method, path, body, **query)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def sql(self, query: str, *args: object) -> Sequence[Any]:
        """Run a statement and commit it."""
        async with self.parts.database.transaction() as db:
            return await db.fetch(query, *args)

    async def overlaps(self) -> list[Any]:
        """Overlapping claims, found by comparing all pairs, independent of the constraint."""
        rows = await self.sql(
            "SELECT a.id, b.id FROM claims a JOIN claims b ON a.subject_no = b.subject_no AND a.id < b.id"
            " WHERE a.starts_at < b.ends_at AND b.starts_at < a.ends_at"
        )
        return list(rows)

    async def let_lapse(self, hold_id: object) -> None:
        """Expire the hold; its timer has not fired yet."""
        await self.sql(
            "UPDATE appointments SET expires_at = clock_timestamp() - interval '1 second' WHERE id = $1",
            UUID(str(hold_id)),
        )


def service_body(**terms: Any) -> dict[str, Any]:
    return {"name": "Consulta", "duration_minutes": 60, "slot_step_minutes": 30, **terms}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


async def open_clinic(api: httpx.AsyncClient, parts: Parts, *, zone: str = "UTC", **terms: Any) -> Clinic:
    """A new clinic with one worker and one service of an hour, bookable every half hour."""
    empty = Clinic(api, parts, uuid4(), uuid4(), uuid4(), zone)
    service_id = await empty.service(**terms)
    at_work = Clinic(api, parts, empty.operator, uuid4(), service_id, zone)
    return Clinic(api, parts, empty.operator, await at_work.worker(zone=zone), service_id, zone)
