"""Clients who wait at a clinic, and the dispatchers that make them offers."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx

from catraca.domains.scheduling import INVARIANTS, jobs
from catraca.platform.database.invariants import check_invariants
from catraca.roles.domain_rules import client_limits
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic
from tests.servers import until
from tests.support.timer_world import keeping

OFFER_TTL = timedelta(minutes=15)


@dataclass(frozen=True)
class Line:
    clinic: Clinic

    async def ask(self, client: UUID, first: str, last: str, **more: Any) -> httpx.Response:
        """Join the waitlist as the client, for a start from `first` to before `last`."""
        body = self.clinic.wish("", **{"from": first, "to": last, **more})
        del body["starts_at"]
        return await self.clinic.api.post(f"{BASE}/waitlist", json=body, headers=bearer("passenger", client))

    async def join(self, first: str = "09:00", last: str = "09:30", **more: Any) -> UUID:
        """Join with a new client, for the clinic's day; returns the client."""
        client = more.pop("client", None) or uuid4()
        answer = await self.ask(client, self.clinic.at(first), self.clinic.at(last), **more)
        assert answer.status_code == 201, answer.text
        return client

    async def entries(self, client: UUID) -> list[dict[str, Any]]:
        answer = await self.clinic.api.get(f"{BASE}/waitlist", headers=bearer("passenger", client))
        assert answer.status_code == 200, answer.text
        return answer.json()["entries"]

    async def entry(self, client: UUID) -> dict[str, Any]:
        [entry] = await self.entries(client)
        return entry

    async def status(self, client: UUID) -> str:
        return (await self.entry(client))["status"]

    async def becomes(self, client: UUID, status: str) -> dict[str, Any]:
        async def is_so() -> bool:
            return await self.status(client) == status

        await until(is_so, seconds=20)
        return await self.entry(client)

    async def settled(self) -> None:
        """Wait until no offer is pending."""

        async def nothing_due() -> bool:
            due = await self.clinic.sql(
                "SELECT FROM timers WHERE kind IN ('scheduling.time_freed', 'scheduling.wait_due')"
                " AND due_at <= clock_timestamp()"
            )
            return not due

        await until(nothing_due, seconds=20)

    async def give_back(self, client: UUID) -> None:
        hold_id = (await self.entry(client))["offer"]["hold_id"]
        answer = await self.clinic.api.delete(f"{BASE}/holds/{hold_id}", headers=bearer("passenger", client))
        assert answer.status_code == 204, answer.text

    async def leave(self, client: UUID) -> None:
        path = f"{BASE}/waitlist/{(await self.entry(client))['entry_id']}"
        answer = await self.clinic.api.delete(path, headers=bearer("passenger", client))
        assert answer.status_code == 204, answer.text

    async def let_offer_lapse(self, client: UUID) -> None:
        """Expire the client's offer and make its timer due."""
        hold_id = (await self.entry(client))["offer"]["hold_id"]
        await self.clinic.let_lapse(hold_id)
        await self.hasten(UUID(hold_id))

    async def hasten(self, subject_id: UUID) -> None:
        """Make the timer due."""
        await self.clinic.sql(
            "UPDATE timers SET due_at = clock_timestamp(), awake_at = clock_timestamp()"
            " WHERE subject_id = $1",
            subject_id,
        )

    @asynccontextmanager
    async def dispatching(self, dispatchers: int = 1) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            for _ in range(dispatchers):
                handlers = jobs.scheduling_timers(
                    offer_ttl=OFFER_TTL, limits=client_limits(self.clinic.parts.settings.scheduling)
                )
                await running.enter_async_context(keeping(self.clinic.parts.database, handlers))
            yield


async def taken(clinic: Clinic, clock: str = "09:00", **more: Any) -> tuple[UUID, str]:
    """Book that time for a new client; returns the client and the appointment."""
    client = uuid4()
    return client, (await clinic.booked(client, clinic.at(clock), **more))["appointment_id"]


async def cancel(clinic: Clinic, client: UUID, appointment_id: str) -> None:
    answer = await clinic.act(client, appointment_id, "cancel")
    assert answer.status_code == 200, answer.text


async def invariants_hold(clinic: Clinic) -> None:
    verdicts = await check_invariants(clinic.parts.database, INVARIANTS)
    assert [verdict.rule.name for verdict in verdicts if verdict.state != "held"] == []
