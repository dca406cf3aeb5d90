"""Devices that are not connected are woken by web push, unless somebody has the message already."""

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
class Office:
    """An API, its notifier, and the push service that devices are subscribed at."""

    parts: Parts
    api: httpx.AsyncClient
    service: PushService

    async def subscribed(self, someone: Person) -> tuple[Browser, str]:
        browser = Browser(f"{self.service.origin}/send/{uuid4()}")
        answer = await self.subscribe(someone, browser)
        assert answer.status_code == 201, answer.text
        return browser, answer.json()["id"]

    async def subscribe(self, someone: Person, browser: Browser) -> httpx.Response:
        return await self.api.post(
            "/v1/push/subscriptions", headers=someone.headers, json=browser.subscription
        )

    async def devices(self, someone: Person) -> list[str]:
        answer = await self.api.get("/v1/push/subscriptions", headers=someone.headers)
        return [device["id"] for device in answer.json()["items"]]

    async def tell(self, *events: Event) -> None:
        notifier = Notifier(_unheard, currency="BRL", pushes=True)
        sources = [SourceEvent(uuid4(), event) for event in events]
        await self.parts.database.run(lambda db: notifier.notify(db, sources))

    async def all_sent(self) -> bool:
        """Everything that was due has been seen to."""
        async with self.parts.database.connection() as db:
            left = await db.fetchval(
                "SELECT (SELECT count(*) FROM outbox WHERE exchange = 'notifications.events')"
                " + (SELECT count(*) FROM bus_messages WHERE queue = 'notification_push_queue')"
                " + (SELECT count(*) FROM bus_delayed WHERE queue = 'notification_push_queue')"
            )
        return left == 0


async def _unheard(_payload: bytes) -> None:
    """Nobody is connected."""


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[PushService]:
    async with push_service() as service:
        yield service


@pytest.fixture(scope="module")
async def office(stack: Stack, settings: Settings, service: PushService) -> AsyncIterator[Office]:
    push = {"push_contact": "mailto:operator@example.org", "push_hosts": [service.origin]}
    async with own_parts(stack, settings, **push) as parts, served(parts) as here, here.client() as client:
        yield Office(parts, client, service)


@pytest.fixture(autouse=True)
async def fresh(office: Office) -> None:
    office.service.taken.clear()
    office.service.status = 201


async def a_passenger(office: Office, **fields: object) -> Person:
    someone = await Person().known_to(office.api)
    if fields:
        assert (await someone.change(office.api, **fields)).status_code == 200
    return someone


def nobody_found(rider_id: UUID, at: datetime | None = None) -> NoDriversAvailable:
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
    office: Office,
) -> None:
    ana, other = await a_passenger(office, language="en"), await a_passenger(office)
    phone, _ = await office.subscribed(ana)
    tablet, _ = await office.subscribed(ana)
    await office.subscribed(other)
    async with working(office.parts, ["relay", "notifier"]):
        await office.tell(nobody_found(ana.id))
        await until(lambda: len(office.service.taken) == 2)
        await until(office.all_sent)
    endpoints = {one.subscription["endpoint"]: one for one in (phone, tablet)}
    said = [
        endpoints[office.service.origin + pushed.path].read(pushed.body) for pushed in office.service.taken
    ]
    assert {(one["title"], one["type"], one["seq"]) for one in said} == {
        ("No driver available", "matching.no_drivers_available", 1)
    }
    assert len(office.service.taken) == 2


async def test_acknowledged_and_quiet_types_are_not_pushed(office: Office) -> None:
    ana = await a_passenger(office)
    await office.subscribed(ana)
    started = RideStarted(ride_id=uuid4(), round=1, rider_id=ana.id, driver_id=uuid4(), started_at=now())
    await office.tell(nobody_found(ana.id), started)
    async with office.parts.database.transaction() as db:
        await db.execute("UPDATE notification_heads SET acked_seq = seq WHERE user_id = $1", ana.id)
    async with working(office.parts, ["relay", "notifier"]):
        await until(office.all_sent)
    assert office.service.taken == []


async def an_appointment(office: Office, client: Person, worker: Person, starts_in: timedelta) -> Event:
    """The client has called it off."""
    service_id, worker_id = uuid4(), uuid4()
    async with office.parts.database.transaction() as db:
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


async def test_own_cancellation_is_notified_but_not_pushed(office: Office) -> None:
    client, worker = await a_passenger(office), await a_passenger(office)
    await office.subscribed(client)
    browser, _ = await office.subscribed(worker)
    event = await an_appointment(office, client, worker, timedelta(days=2))
    async with working(office.parts, ["relay", "notifier"]):
        await office.tell(event)
        await until(lambda: office.service.taken)
        await until(office.all_sent)
    (pushed,) = office.service.taken
    assert browser.read(pushed.body)["message"].startswith("O cliente cancelou: Consulta, ")
    told = await office.api.get("/v1/notifications", headers=client.headers)
    assert [one["type"] for one in told.json()["items"]] == ["appointment.canceled"]


async def test_appointment_pushes_expire_at_its_start(office: Office) -> None:
    client, worker = await a_passenger(office), await a_passenger(office)
    await office.subscribed(worker)
    await office.tell(await an_appointment(office, client, worker, timedelta(seconds=-1)))
    async with working(office.parts, ["relay", "notifier"]):
        await until(office.all_sent)
    assert office.service.taken == []


async def test_gone_device_is_removed(office: Office) -> None:
    ana = await a_passenger(office)
    await office.subscribed(ana)
    office.service.status = 410
    async with working(office.parts, ["relay", "notifier"]):
        await office.tell(nobody_found(ana.id))
        await until(lambda: office.service.taken)
        await until(office.all_sent)
        assert await office.devices(ana) == []
        await office.tell(nobody_found(ana.id))
        await until(office.all_sent)
    assert len(office.service.taken) == 1


async def test_failing_push_service_is_retried(office: Office) -> None:
    ana = await a_passenger(office)
    await office.subscribed(ana)
    office.service.status = 503
    async with working(office.parts, ["relay", "notifier"]):
        await office.tell(nobody_found(ana.id))
        await until(lambda: office.service.taken)
        office.service.status = 201
        await until(lambda: len(office.service.taken) == 2)
        await until(office.all_sent)
    assert len(await office.devices(ana)) == 1


async def test_old_notifications_are_not_pushed(office: Office) -> None:
    ana = await a_passenger(office)
    await office.subscribed(ana)
    arrived = RideArriving(ride_id=uuid4(), round=1, rider_id=ana.id, driver_id=uuid4(), arrived_at=now())
    await office.tell(arrived)
    async with office.parts.database.transaction() as db:
        old = (now() - timedelta(hours=2)).isoformat()
        await db.execute(
            "UPDATE outbox SET body = jsonb_set(body::jsonb, '{timestamp}', to_jsonb($1::text))::json"
            " WHERE exchange = 'notifications.events'",
            old,
        )
    async with working(office.parts, ["relay", "notifier"]):
        await until(office.all_sent)
    assert office.service.taken == []


async def test_user_has_ten_devices_and_a_device_one_user(office: Office) -> None:
    ana, bia = await a_passenger(office), await a_passenger(office)
    browser, first = await office.subscribed(ana)
    assert (await office.subscribe(ana, browser)).json()["id"] == first, "the same device again"
    assert (await office.subscribe(bia, browser)).json()["id"] == first
    assert (await office.devices(ana), await office.devices(bia)) == ([], [first])
    for _ in range(11):
        await office.subscribed(bia)
    assert len(await office.devices(bia)) == 10
    assert first not in await office.devices(bia)


async def test_only_the_owner_can_unsubscribe(office: Office) -> None:
    ana, bia = await a_passenger(office), await a_passenger(office)
    _, device = await office.subscribed(ana)
    for someone, left in ((bia, [device]), (ana, []), (ana, [])):
        answer = await office.api.delete(f"/v1/push/subscriptions/{device}", headers=someone.headers)
        assert answer.status_code == 204
        assert await office.devices(ana) == left


async def test_invalid_endpoints_and_keys_are_refused(office: Office) -> None:
    ana = await a_passenger(office)
    elsewhere = await office.subscribe(ana, Browser("https://169.254.169.254/latest"))
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (422, "push_endpoint_refused")
    browser = Browser(f"{office.service.origin}/send/x")
    browser.subscription["keys"]["p256dh"] = "A" * 87
    keys = await office.subscribe(ana, browser)
    assert (keys.status_code, keys.json()["code"]) == (422, "push_keys_invalid")


async def test_push_off_is_409(stack: Stack, office: Office) -> None:
    async with served(office.parts, push_contact=None) as here, here.client() as api:
        ana = await a_passenger(office)
        answer = await api.get("/v1/push/key", headers=ana.headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "push_off")
        assert "CATRACA_PUSH_CONTACT" in answer.json()["detail"]
    key = await office.api.get("/v1/push/key", headers=ana.headers)
    assert len(key.json()["public_key"]) == 87


async def test_erasure_deletes_devices(office: Office) -> None:
    ana = await a_passenger(office)
    await office.subscribed(ana)
    assert (await office.api.delete("/v1/me", headers=ana.headers)).status_code in (200, 204)
    async with office.parts.database.connection() as db:
        assert not await db.fetchval("SELECT count(*) FROM push_subscriptions WHERE user_id = $1", ana.id)
