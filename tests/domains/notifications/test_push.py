"""Web push to devices that are not connected, unless a device has acknowledged the notification."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest

from catraca.domains.notifications import Notifier
from catraca.domains.notifications.model import SourceEvent
from catraca.events import AppointmentCanceled, NoDriversAvailable, RideArriving, RideStarted
from catraca.events.catalogue import example_of
from catraca.events.rides import Point
from catraca.platform.clock import now
from catraca.platform.event import Event
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.domains.people.person import Person
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.push_service import Browser, PushService, push_service
from tests.support.roles import own_parts, working

pytestmark = pytest.mark.parametrize("stack", ["embedded"], indirect=True, scope="session")


@dataclass
class PushHarness:
    """An API, its notifier, and a push service."""

    parts: Parts
    api: httpx.AsyncClient
    service: PushService

    async def subscribed(self, user: Person) -> tuple[Browser, str]:
        browser = Browser(f"{self.service.origin}/send/{uuid4()}")
        answer = await self.subscribe(user, browser)
        assert answer.status_code == 201, answer.text
        return browser, answer.json()["id"]

    async def subscribe(self, user: Person, browser: Browser) -> httpx.Response:
        return await self.api.post("/v1/push/subscriptions", headers=user.headers, json=browser.subscription)

    async def devices(self, user: Person) -> list[str]:
        answer = await self.api.get("/v1/push/subscriptions", headers=user.headers)
        return [device["id"] for device in answer.json()["items"]]

    async def notify(self, *events: Event) -> None:
        notifier = Notifier(_not_announced, currency="BRL", pushes=True)
        sources = [SourceEvent(uuid4(), event) for event in events]
        await self.parts.database.run(lambda db: notifier.notify(db, sources))

    async def all_sent(self) -> bool:
        """Return True if no push event is left in outbox and queues."""
        async with self.parts.database.connection() as db:
            left = await db.fetchval(
                "SELECT (SELECT count(*) FROM outbox WHERE exchange = 'notifications.events')"
                " + (SELECT count(*) FROM bus_messages WHERE queue = 'notification_push_queue')"
                " + (SELECT count(*) FROM bus_delayed WHERE queue = 'notification_push_queue')"
            )
        return left == 0


async def _not_announced(_payload: bytes) -> None:
    """Drop the announcement: no socket is open."""


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[PushService]:
    async with push_service() as service:
        yield service


@pytest.fixture(scope="module")
async def harness(stack: Stack, settings: Settings, service: PushService) -> AsyncIterator[PushHarness]:
    push = {"push_contact": "mailto:operator@example.org", "push_hosts": [service.origin]}
    async with own_parts(stack, settings, **push) as parts, served(parts) as here, here.client() as client:
        yield PushHarness(parts, client, service)


@pytest.fixture(autouse=True)
async def fresh(harness: PushHarness) -> None:
    harness.service.taken.clear()
    harness.service.status = 201


async def new_passenger(harness: PushHarness, **fields: object) -> Person:
    user = await Person().known_to(harness.api)
    if fields:
        assert (await user.change(harness.api, **fields)).status_code == 200
    return user


def no_drivers(rider_id: UUID, at: datetime | None = None) -> NoDriversAvailable:
    moment = at or now()
    return NoDriversAvailable(
        ride_id=uuid4(),
        round=1,
        rider_id=rider_id,
        pickup=Point(-12.97, -38.5),
        started_at=moment,
        timeout_at=moment,
        total_attempts=0,
        searches=1,
        search_radius_km=5,
        reason="no_drivers_in_area",
    )


async def test_each_device_of_the_user_gets_the_push(
    harness: PushHarness,
) -> None:
    ana, other = await new_passenger(harness, language="en"), await new_passenger(harness)
    phone, _ = await harness.subscribed(ana)
    tablet, _ = await harness.subscribed(ana)
    await harness.subscribed(other)
    async with working(harness.parts, ["relay", "notifier"]):
        await harness.notify(no_drivers(ana.id))
        await until(lambda: len(harness.service.taken) == 2)
        await until(harness.all_sent)
    endpoints = {one.subscription["endpoint"]: one for one in (phone, tablet)}
    payloads = [
        endpoints[harness.service.origin + pushed.path].read(pushed.body) for pushed in harness.service.taken
    ]
    assert {(one["title"], one["type"], one["seq"]) for one in payloads} == {
        ("No driver available", "matching.no_drivers_available", 1)
    }
    assert len(harness.service.taken) == 2


async def test_acknowledged_and_quiet_types_are_not_pushed(harness: PushHarness) -> None:
    ana = await new_passenger(harness)
    await harness.subscribed(ana)
    started = RideStarted(ride_id=uuid4(), round=1, rider_id=ana.id, driver_id=uuid4(), started_at=now())
    await harness.notify(no_drivers(ana.id), started)
    async with harness.parts.database.transaction() as db:
        await db.execute("UPDATE notification_heads SET acked_seq = seq WHERE user_id = $1", ana.id)
    async with working(harness.parts, ["relay", "notifier"]):
        await until(harness.all_sent)
    assert harness.service.taken == []


async def new_cancellation(
    harness: PushHarness, client: Person, worker: Person, starts_in: timedelta
) -> Event:
    """Insert a service and a worker; return the event of a cancellation by the client."""
    service_id, worker_id = uuid4(), uuid4()
    async with harness.parts.database.transaction() as db:
        await db.execute(
            "INSERT INTO services (id, name, duration_minutes, buffer_before_minutes, buffer_after_minutes,"
            "   min_notice_minutes, horizon_days, slot_step_minutes, capacity)"
            " VALUES ($1, 'Consulta', 60, 0, 0, 0, 60, 30, 1)",
            service_id,
        )
        await db.execute(
            "INSERT INTO subjects (id, kind, name, time_zone) VALUES ($1, 'worker', 'Ana', 'UTC')", worker_id
        )
    return msgspec.structs.replace(
        example_of(AppointmentCanceled),
        service_id=service_id,
        worker_id=worker_id,
        worker_user_id=worker.id,
        client_id=client.id,
        starts_at=now() + starts_in,
        canceled_by="client",
    )


async def test_own_cancellation_is_notified_but_not_pushed(harness: PushHarness) -> None:
    client, worker = await new_passenger(harness), await new_passenger(harness)
    await harness.subscribed(client)
    browser, _ = await harness.subscribed(worker)
    event = await new_cancellation(harness, client, worker, timedelta(days=2))
    async with working(harness.parts, ["relay", "notifier"]):
        await harness.notify(event)
        await until(lambda: harness.service.taken)
        await until(harness.all_sent)
    (pushed,) = harness.service.taken
    assert browser.read(pushed.body)["message"].startswith("O cliente cancelou: Consulta, ")
    page = await harness.api.get("/v1/notifications", headers=client.headers)
    assert [one["type"] for one in page.json()["items"]] == ["appointment.canceled"]


async def test_appointment_pushes_expire_at_its_start(harness: PushHarness) -> None:
    client, worker = await new_passenger(harness), await new_passenger(harness)
    await harness.subscribed(worker)
    await harness.notify(await new_cancellation(harness, client, worker, timedelta(seconds=-1)))
    async with working(harness.parts, ["relay", "notifier"]):
        await until(harness.all_sent)
    assert harness.service.taken == []


async def test_gone_device_is_removed(harness: PushHarness) -> None:
    ana = await new_passenger(harness)
    await harness.subscribed(ana)
    harness.service.status = 410
    async with working(harness.parts, ["relay", "notifier"]):
        await harness.notify(no_drivers(ana.id))
        await until(lambda: harness.service.taken)
        await until(harness.all_sent)
        assert await harness.devices(ana) == []
        await harness.notify(no_drivers(ana.id))
        await until(harness.all_sent)
    assert len(harness.service.taken) == 1


async def test_failing_push_service_is_retried(harness: PushHarness) -> None:
    ana = await new_passenger(harness)
    await harness.subscribed(ana)
    harness.service.status = 503
    async with working(harness.parts, ["relay", "notifier"]):
        await harness.notify(no_drivers(ana.id))
        await until(lambda: harness.service.taken)
        harness.service.status = 201
        await until(lambda: len(harness.service.taken) == 2)
        await until(harness.all_sent)
    assert len(await harness.devices(ana)) == 1


async def test_old_notifications_are_not_pushed(harness: PushHarness) -> None:
    ana = await new_passenger(harness)
    await harness.subscribed(ana)
    arrived = RideArriving(ride_id=uuid4(), round=1, rider_id=ana.id, driver_id=uuid4(), arrived_at=now())
    await harness.notify(arrived)
    async with harness.parts.database.transaction() as db:
        old = (now() - timedelta(hours=2)).isoformat()
        await db.execute(
            "UPDATE outbox SET body = jsonb_set(body::jsonb, '{timestamp}', to_jsonb($1::text))::json"
            " WHERE exchange = 'notifications.events'",
            old,
        )
    async with working(harness.parts, ["relay", "notifier"]):
        await until(harness.all_sent)
    assert harness.service.taken == []


async def test_user_has_ten_devices_and_a_device_one_user(harness: PushHarness) -> None:
    ana, bia = await new_passenger(harness), await new_passenger(harness)
    browser, first = await harness.subscribed(ana)
    assert (await harness.subscribe(ana, browser)).json()["id"] == first, "the same device again"
    assert (await harness.subscribe(bia, browser)).json()["id"] == first
    assert (await harness.devices(ana), await harness.devices(bia)) == ([], [first])
    for _ in range(11):
        await harness.subscribed(bia)
    assert len(await harness.devices(bia)) == 10
    assert first not in await harness.devices(bia)


async def test_only_the_owner_can_unsubscribe(harness: PushHarness) -> None:
    ana, bia = await new_passenger(harness), await new_passenger(harness)
    _, device = await harness.subscribed(ana)
    for user, left in ((bia, [device]), (ana, []), (ana, [])):
        answer = await harness.api.delete(f"/v1/push/subscriptions/{device}", headers=user.headers)
        assert answer.status_code == 204
        assert await harness.devices(ana) == left


async def test_invalid_endpoints_and_keys_are_refused(harness: PushHarness) -> None:
    ana = await new_passenger(harness)
    elsewhere = await harness.subscribe(ana, Browser("https://169.254.169.254/latest"))
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (422, "push_endpoint_refused")
    browser = Browser(f"{harness.service.origin}/send/x")
    browser.subscription["keys"]["p256dh"] = "A" * 87
    keys = await harness.subscribe(ana, browser)
    assert (keys.status_code, keys.json()["code"]) == (422, "push_keys_invalid")


async def test_push_off_is_409(stack: Stack, harness: PushHarness) -> None:
    async with served(harness.parts, push_contact=None) as here, here.client() as api:
        ana = await new_passenger(harness)
        answer = await api.get("/v1/push/key", headers=ana.headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "push_off")
        assert "CATRACA_PUSH_CONTACT" in answer.json()["detail"]
    key = await harness.api.get("/v1/push/key", headers=ana.headers)
    assert len(key.json()["public_key"]) == 87


async def test_erasure_deletes_devices(harness: PushHarness) -> None:
    ana = await new_passenger(harness)
    await harness.subscribed(ana)
    assert (await harness.api.delete("/v1/me", headers=ana.headers)).status_code in (200, 204)
    async with harness.parts.database.connection() as db:
        assert not await db.fetchval("SELECT count(*) FROM push_subscriptions WHERE user_id = $1", ana.id)
