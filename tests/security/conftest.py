"""An API with web push, on a database of its own, for the findings about access."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import UUID, uuid4

import httpx
import pytest

from catraca.domains.notifications.push import store as devices
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.rides.desk import WAY
from tests.servers import Stack
from tests.support.http import served
from tests.support.push_service import Browser, PushService, push_service
from tests.support.roles import own_parts


@dataclass
class AccessHarness:
    """Requests that give access, over HTTP, and whether that access still works."""

    parts: Parts
    api: httpx.AsyncClient
    port: int
    push: PushService

    def new_browser(self) -> Browser:
        return Browser(f"{self.push.origin}/send/{uuid4()}")

    async def subscribe(self, headers: dict[str, str], browser: Browser) -> httpx.Response:
        return await self.api.post("/v1/push/subscriptions", headers=headers, json=browser.subscription)

    async def pushed_devices(self, user_id: UUID) -> int:
        """The number of devices to which a notification of this user is pushed."""
        async with self.parts.database.connection() as db:
            return len(await devices.subscriptions_of(db, [user_id]))

    async def share_trip(self, headers: dict[str, str]) -> str:
        """The path of a link to a new ride of this passenger."""
        ride = await self.api.post("/v1/rides", json=WAY, headers=headers)
        assert ride.status_code == 201, ride.text
        link = await self.api.post(f"/v1/rides/{ride.json()['ride_id']}/shares", headers=headers)
        assert link.status_code == 201, link.text
        return link.json()["path"]

    async def new_worker(self, user_id: UUID) -> str:
        """The id of a worker with this account."""
        body = {"name": "Ana", "time_zone": "UTC", "user_id": str(user_id)}
        made = await self.api.post("/v1/scheduling/workers", json=body, headers=bearer("operator"))
        assert made.status_code == 201, made.text
        return made.json()["worker_id"]

    async def link_calendar(self, worker_id: str, headers: dict[str, str]) -> str:
        """The path of a new calendar link."""
        link = await self.api.post(f"/v1/scheduling/workers/{worker_id}/calendar-link", headers=headers)
        assert link.status_code == 201, link.text
        return link.json()["path"]

    async def status_of(self, path: str) -> int:
        """The status of a link, which needs no token."""
        return (await self.api.get(path)).status_code


@pytest.fixture(scope="session")
async def access(stack: Stack, settings: Settings) -> AsyncIterator[AccessHarness]:
    async with (
        push_service() as push,
        own_parts(
            stack, settings, push_contact="mailto:operator@example.org", push_hosts=[push.origin]
        ) as parts,
        served(parts) as here,
        here.client() as api,
    ):
        yield AccessHarness(parts, api, here.port, push)
