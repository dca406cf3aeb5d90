"""Notifications and reminders of appointments: in time, once, and only while they still apply."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from catraca.domains.scheduling.booking import service as booking
from catraca.roles.agents.retention_pruner import RetentionPruner
from catraca.roles.parts import Parts
from catraca.settings import Settings
from tests.conftest import bearer
from tests.domains.scheduling.clinic import BASE, Clinic, moment, open_clinic
from tests.domains.scheduling.past_appointments import move_back
from tests.servers import Stack, until
from tests.support.http import served
from tests.support.roles import own_parts, working

DAY = timedelta(days=1)
REMINDER = "appointment.reminder_due"
ROLES = ("relay", "dispatcher", "notifier", "housekeeper")


@dataclass(frozen=True)
class Practice:
    """A clinic with a running relay, dispatcher and notifier."""

    clinic: Clinic
    doctor: UUID

    async def notifications(self, user_id: UUID, role: str = "passenger") -> list[dict[str, Any]]:
        """The user's notifications, oldest first."""
        answer = await self.clinic.api.get(
            "/v1/notifications", params={"since": 0}, headers=bearer(role, user_id)
        )
        return answer.json()["items"]

    async def types(self, user_id: UUID, role: str = "passenger") -> list[str]:
        return [one["type"] for one in await self.notifications(user_id, role)]

    async def until_notified(self, user_id: UUID, kind: str, role: str = "passenger") -> dict[str, Any]:
        async def is_notified() -> bool:
            return kind in await self.types(user_id, role)

        await until(is_notified)
        return next(one for one in await self.notifications(user_id, role) if one["type"] == kind)

    async def reminder(self, appointment_id: str) -> datetime | None:
        """The time of the reminder's timer, if it is set."""
        rows = await self.clinic.sql(
            "SELECT due_at FROM timers WHERE subject_id = $1 AND kind = 'scheduling.reminder_due'",
            UUID(appointment_id),
        )
        return rows[0]["due_at"] if rows else None

    async def make_reminder_due(self, appointment_id: str) -> None:
        """Make the timer of the reminder due."""
        await self.clinic.sql(
            "UPDATE timers SET due_at = clock_timestamp(), awake_at = clock_timestamp()"
            " WHERE subject_id = $1",
            UUID(appointment_id),
        )

    async def booked(self, client: UUID, clock: str, *, days: int = 0) -> dict[str, Any]:
        return await self.clinic.booked(client, self.clinic.at(clock, days=days))


@pytest.fixture(scope="module")
async def own(stack: Stack, settings: Settings) -> AsyncIterator[Parts]:
    async with own_parts(stack, settings) as parts, working(parts, ROLES):
        yield parts


@pytest.fixture
async def practice(own: Parts) -> AsyncIterator[Practice]:
    async with served(own) as here, here.client() as api:
        clinic, doctor = await open_clinic(api, own, zone="America/Bahia"), uuid4()
        await api.patch("/v1/me", json={"language": "en"}, headers=bearer("worker", doctor))
        worker_id = await clinic.worker(zone="America/Bahia", user_id=str(doctor))
        yield Practice(replace(clinic, worker_id=worker_id), doctor)


async def test_reminders_use_the_users_language_and_agreed_zone(practice: Practice) -> None:
    client = uuid4()
    booked = await practice.booked(client, "14:00")
    notice = await practice.until_notified(client, "appointment.booked")
    when = notice["data"]["when"]
    assert when.endswith(", 14:00"), "the time in Bahia, not in UTC"
    assert notice["data"]["message"] == f"Agendado: Consulta com Ana, {when}."
    assert notice["data"]["appointment_id"] == booked["appointment_id"]
    data = (await practice.until_notified(practice.doctor, "appointment.booked", "worker"))["data"]
    assert data["message"] == f"New appointment: Consulta, {data['when']}."
    assert data["when"].endswith(", 2:00 PM")


async def test_a_reminder_comes_a_day_before_to_both_and_once(practice: Practice) -> None:
    client = uuid4()
    booked = await practice.booked(client, "14:00")
    appointment_id = booked["appointment_id"]
    assert await practice.reminder(appointment_id) == moment(booked["starts_at"]) - DAY
    await practice.make_reminder_due(appointment_id)
    notice = await practice.until_notified(client, REMINDER)
    assert notice["data"]["message"] == f"Lembrete: Consulta com Ana, {notice['data']['when']}."
    await practice.until_notified(practice.doctor, REMINDER, "worker")
    assert await practice.reminder(appointment_id) is None
    # A later notification shows that no other was pending.
    await practice.clinic.act(client, appointment_id, "cancel")
    await practice.until_notified(client, "appointment.canceled")
    await practice.until_notified(practice.doctor, "appointment.canceled", "worker")
    everything = ["appointment.booked", REMINDER, "appointment.canceled"]
    assert await practice.types(client) == everything
    assert await practice.types(practice.doctor, "worker") == everything


async def test_a_reminder_moves_with_its_appointment(practice: Practice) -> None:
    client = uuid4()
    booked = await practice.booked(client, "14:00")
    moved = await practice.clinic.act(
        client, booked["appointment_id"], "reschedule", starts_at=practice.clinic.at("09:00", days=2)
    )
    starts_at = moment(moved.json()["starts_at"])
    assert await practice.reminder(booked["appointment_id"]) == starts_at - DAY
    await practice.make_reminder_due(booked["appointment_id"])
    notice = await practice.until_notified(client, REMINDER)
    assert moment(notice["data"]["starts_at"]) == starts_at
    assert notice["data"]["when"].endswith(", 09:00")


async def test_a_canceled_appointment_is_not_reminded_of(practice: Practice) -> None:
    client = uuid4()
    booked = await practice.booked(client, "14:00")
    await practice.clinic.act(client, booked["appointment_id"], "cancel")
    assert await practice.reminder(booked["appointment_id"]) is None
    # Also by a timer that had fired already.
    appointment_id = UUID(booked["appointment_id"])
    await practice.clinic.parts.database.run(lambda db: booking.remind(db, appointment_id))
    again = await practice.booked(client, "15:00")
    await practice.clinic.act(client, again["appointment_id"], "cancel")

    async def both_are_canceled() -> bool:
        return (await practice.types(client)).count("appointment.canceled") == 2

    await until(both_are_canceled)
    assert REMINDER not in await practice.types(client)


async def test_started_appointments_get_no_reminder(practice: Practice) -> None:
    client = uuid4()
    booked = await practice.booked(client, "14:00")
    await move_back(practice.clinic, booked["appointment_id"], days=4)
    appointment_id = UUID(booked["appointment_id"])
    await practice.clinic.parts.database.run(lambda db: booking.remind(db, appointment_id))
    events = await practice.clinic.sql(
        "SELECT routing_key FROM outbox WHERE aggregate_id = $1"
        " UNION ALL SELECT routing_key FROM outbox_sent WHERE aggregate_id = $1",
        appointment_id,
    )
    assert [row["routing_key"] for row in events] == ["appointment.booked"]


async def test_appointments_nearer_than_the_reminder_get_none(practice: Practice) -> None:
    clinic, client = practice.clinic, uuid4()
    async with (
        served(clinic.parts, appointment_reminder=timedelta(days=5)) as here,
        here.client() as api,
    ):
        early = Practice(replace(clinic, api=api), practice.doctor)
        near = await early.booked(client, "09:00")
        assert await early.reminder(near["appointment_id"]) is None
        far = await early.booked(client, "09:00", days=7)
        assert await early.reminder(far["appointment_id"]) == moment(far["starts_at"]) - 5 * DAY
        moved = await early.clinic.act(
            client, far["appointment_id"], "reschedule", starts_at=clinic.at("11:00")
        )
        assert moved.status_code == 200, moved.text
        assert await early.reminder(far["appointment_id"]) is None
        back = await early.clinic.act(
            client, far["appointment_id"], "reschedule", starts_at=clinic.at("11:00", days=7)
        )
        assert await early.reminder(far["appointment_id"]) == moment(back.json()["starts_at"]) - 5 * DAY


async def test_only_booked_holds_get_a_reminder(practice: Practice) -> None:
    client = uuid4()
    held = (await practice.clinic.hold(client, practice.clinic.at("14:00"))).json()
    assert await practice.reminder(held["hold_id"]) is None
    booked = await practice.clinic.booked(client, practice.clinic.at("14:00"), hold_id=held["hold_id"])
    assert await practice.reminder(held["hold_id"]) == moment(booked["starts_at"]) - DAY
    assert await practice.types(client) in ([], ["appointment.booked"]), "the hold makes no notification"


async def test_appointment_events_are_audited_by_ids_only(practice: Practice) -> None:
    clinic = practice.clinic
    operator = bearer("operator", clinic.operator)
    walk_in = {"name": "Maria Souza", "contact": "+5571987654321"}
    booked = await clinic.api.post(
        f"{BASE}/appointments", json=clinic.wish(clinic.at("14:00"), client=walk_in), headers=operator
    )
    appointment_id = booked.json()["appointment_id"]
    await clinic.act(clinic.operator, appointment_id, "confirm", role="operator")
    await clinic.act(clinic.operator, appointment_id, "cancel", role="operator", reason="moved away")
    query = "SELECT l::text AS line, action, data FROM audit_log l WHERE subject_id = $1 AND actor_id IS NULL"

    async def is_logged() -> bool:
        return len(await clinic.sql(query, appointment_id)) == 3

    await until(is_logged)
    lines = await clinic.sql(f"{query} ORDER BY id", appointment_id)
    assert [line["action"] for line in lines] == [
        f"appointment.{verb}" for verb in ("booked", "confirmed", "canceled")
    ]
    assert {name for line in lines for name in msgspec.json.decode(line["data"])} <= {"event_id", "seq"}
    whole = " ".join(line["line"] for line in lines)
    assert not [part for part in (*walk_in.values(), "moved away", "Ana") if part in whole]


async def test_the_housekeeper_prunes_old_holds(practice: Practice) -> None:
    clinic, client = practice.clinic, uuid4()
    walk_in = await clinic.api.post(
        f"{BASE}/appointments",
        json=clinic.wish(clinic.at("09:00"), client={"name": "Maria"}),
        headers=bearer("operator", clinic.operator),
    )
    await move_back(clinic, walk_in.json()["appointment_id"], days=370)
    hold_id = (await clinic.hold(client, clinic.at("11:00"))).json()["hold_id"]
    await clinic.api.delete(f"{BASE}/holds/{hold_id}", headers=bearer("passenger", client))
    await clinic.sql("UPDATE appointments SET changed_at = changed_at - interval '2 days'")
    await RetentionPruner(clinic.parts).prune()
    kept = await clinic.sql(
        "SELECT client_name FROM appointments WHERE id = ANY ($1::uuid[])",
        [UUID(walk_in.json()["appointment_id"]), UUID(hold_id)],
    )
    assert [row["client_name"] for row in kept] == ["-"]
