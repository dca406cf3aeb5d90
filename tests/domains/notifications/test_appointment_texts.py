"""Texts of appointment notifications for clients and workers, and which are pushed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from catraca.domains import scheduling
from catraca.domains.notifications.messages.model import notifications_of
from catraca.domains.notifications.model import SourceEvent
from catraca.domains.people import UserId
from catraca.events import (
    AppointmentBooked,
    AppointmentCanceled,
    AppointmentConfirmed,
    AppointmentMissed,
    AppointmentNear,
    AppointmentRescheduled,
    SlotOffered,
)
from catraca.platform.event import Event
from catraca.platform.texts import Language, local_moment
from tests.domains.notifications.test_ride_texts import (
    ANA,
    BEFORE,
    CLIENT,
    RUI,
    SERVICE,
    WORKER,
    context,
    messages,
    notified,
    of,
    person,
)

# In Bahia 14:00 on a Monday.
STARTS, ENDS = (datetime(2026, 1, 5, hour, tzinfo=UTC) for hour in (17, 18))
EARLIER = datetime(2026, 1, 2, 12, 30, tzinfo=UTC)
PORTUGUESE, ENGLISH = "seg., 5 de jan., 14:00", "Mon, Jan 5, 2:00 PM"


def appointment(kind: type[Event], **fields: Any) -> Event:
    times = {"starts_at": STARTS, "ends_at": ENDS, "time_zone": "America/Bahia"}
    if kind is AppointmentRescheduled:
        times["previous_starts_at"] = EARLIER
    return of(kind, **times | fields)


def test_booked_notice_uses_the_appointments_time_zone() -> None:
    event = appointment(AppointmentBooked)
    client, worker = notified(event, context())
    assert client == (
        CLIENT,
        "appointment.booked",
        {
            "message": f"Agendado: Consulta com Ana, {PORTUGUESE}.",
            "appointment_id": str(event.appointment_id),  # type: ignore[attr-defined]
            "service_id": str(SERVICE),
            "service": "Consulta",
            "worker_id": str(ANA),
            "worker": "Ana",
            "starts_at": "2026-01-05T17:00:00Z",
            "ends_at": "2026-01-05T18:00:00Z",
            "time_zone": "America/Bahia",
            "when": PORTUGUESE,
        },
    )
    assert worker[:2] == (WORKER, "appointment.booked")


@pytest.mark.parametrize(
    ("event", "portuguese", "english"),
    [
        (
            appointment(AppointmentBooked),
            ("Agendado: Consulta com Ana, {}.", "Novo agendamento: Consulta, {}."),
            ("Booked: Consulta with Ana, {}.", "New appointment: Consulta, {}."),
        ),
        (
            appointment(AppointmentRescheduled),
            ("Remarcado: Consulta com Ana agora é {}.", "Remarcado: Consulta agora é {}."),
            ("Moved: Consulta with Ana is now on {}.", "Moved: Consulta is now on {}."),
        ),
        (
            appointment(AppointmentConfirmed),
            ("Confirmado: Consulta com Ana, {}.", "Confirmado: Consulta, {}."),
            ("Confirmed: Consulta with Ana, {}.", "Confirmed: Consulta, {}."),
        ),
        (
            appointment(AppointmentCanceled, canceled_by="client"),
            ("Você cancelou: Consulta com Ana, {}.", "O cliente cancelou: Consulta, {}."),
            ("You canceled: Consulta with Ana, {}.", "The client canceled: Consulta, {}."),
        ),
        (
            appointment(AppointmentCanceled, canceled_by="worker"),
            ("Ana cancelou: Consulta, {}.", "Você cancelou: Consulta, {}."),
            ("Ana canceled: Consulta, {}.", "You canceled: Consulta, {}."),
        ),
        (
            appointment(AppointmentCanceled, canceled_by="operator"),
            ("Cancelado pela central: Consulta com Ana, {}.", "Cancelado pela central: Consulta, {}."),
            ("Canceled by the office: Consulta with Ana, {}.", "Canceled by the office: Consulta, {}."),
        ),
        (
            appointment(AppointmentNear),
            ("Lembrete: Consulta com Ana, {}.", "Lembrete: Consulta, {}."),
            ("Reminder: Consulta with Ana, {}.", "Reminder: Consulta, {}."),
        ),
    ],
)
def test_client_and_worker_read_each_change(
    event: Event, portuguese: tuple[str, str], english: tuple[str, str]
) -> None:
    for language, templates, when in (("pt-BR", portuguese, PORTUGUESE), ("en", english, ENGLISH)):
        to_client, to_worker = (template.format(when) for template in templates)
        assert messages(event, context(language)) == {CLIENT: [to_client], WORKER: [to_worker]}  # type: ignore[arg-type]


def test_no_show_notifies_the_client_only() -> None:
    event = appointment(AppointmentMissed)
    assert messages(event, context()) == {CLIENT: [f"Sentimos sua falta: Consulta com Ana, {PORTUGUESE}."]}
    assert messages(event, context("en")) == {CLIENT: [f"You were missed: Consulta with Ana, {ENGLISH}."]}


def test_slot_offer_notifies_the_waiting_client_only() -> None:
    event = appointment(SlotOffered, entry_id=uuid4(), expires_at=STARTS - timedelta(minutes=15))
    assert messages(event, context()) == {
        CLIENT: [
            f"Vagou um horário: Consulta com Ana, {PORTUGUESE}. Agende até seg., 5 de jan., 13:45.",
        ]
    }
    assert messages(event, context("en")) == {
        CLIENT: [f"A time became free: Consulta with Ana, {ENGLISH}. Book it until Mon, Jan 5, 1:45 PM."]
    }


def test_previous_worker_reads_the_time_in_the_old_zone() -> None:
    event = appointment(
        AppointmentRescheduled,
        previous_worker_id=RUI,
        previous_worker_user_id=BEFORE,
        previous_time_zone="Europe/Lisbon",
    )
    assert messages(event, context()) == {
        CLIENT: [f"Remarcado: Consulta com Ana agora é {PORTUGUESE}."],
        WORKER: [f"Novo na sua agenda: Consulta, {PORTUGUESE}."],
        BEFORE: ["Saiu da sua agenda: Consulta, sex., 2 de jan., 12:30."],
    }
    assert messages(event, context("en"))[BEFORE] == [
        "No longer in your agenda: Consulta, Fri, Jan 2, 12:30 PM."
    ]
    assert messages(event, context("en"))[WORKER] == [f"New in your agenda: Consulta, {ENGLISH}."]


def test_client_and_worker_read_their_own_language() -> None:
    mixed = context()
    mixed = replace(mixed, people={**mixed.people, UserId(WORKER): person(WORKER, "en")})
    assert messages(appointment(AppointmentNear), mixed) == {
        CLIENT: [f"Lembrete: Consulta com Ana, {PORTUGUESE}."],
        WORKER: [f"Reminder: Consulta, {ENGLISH}."],
    }


def test_parties_without_an_account_are_not_notified() -> None:
    walk_in = appointment(AppointmentBooked, client_id=None)
    assert list(messages(walk_in, context())) == [WORKER]
    unlinked = appointment(AppointmentBooked, worker_user_id=None)
    assert list(messages(unlinked, context())) == [CLIENT]


@pytest.mark.parametrize("kind", [AppointmentBooked, AppointmentRescheduled, AppointmentNear])
def test_client_who_is_the_worker_is_notified_once(kind: type[Event]) -> None:
    """The database allows one notification of a type per user and event."""
    own = appointment(kind, worker_user_id=CLIENT)
    assert [user_id for user_id, _, _ in notified(own, context()) if user_id == CLIENT] == [CLIENT]


def pushed_to(event: Event) -> set[UUID]:
    """Return the users whose devices get a push."""
    return {one.user_id for one in notifications_of(SourceEvent(uuid4(), event), context()) if not one.quiet}


@pytest.mark.parametrize(
    ("event", "woken"),
    [
        (appointment(AppointmentBooked), {WORKER}),
        (appointment(AppointmentConfirmed), {WORKER}),
        (appointment(AppointmentRescheduled), {CLIENT, WORKER}),
        (appointment(AppointmentCanceled, canceled_by="client"), {WORKER}),
        (appointment(AppointmentCanceled, canceled_by="worker"), {CLIENT}),
        (appointment(AppointmentCanceled, canceled_by="operator"), {CLIENT, WORKER}),
        (appointment(AppointmentNear), {CLIENT}),
    ],
)
def test_own_actions_are_not_pushed(event: Event, woken: set[UUID]) -> None:
    assert pushed_to(event) == woken


@pytest.mark.parametrize("language", ["pt-BR", "en"])
def test_notices_link_the_user_they_name(language: Language) -> None:
    """An erasure clears notifications of others that name the user."""
    event = appointment(AppointmentRescheduled, previous_worker_id=RUI, previous_worker_user_id=BEFORE)
    notices = notifications_of(SourceEvent(uuid4(), event), context(language))
    assert {one.user_id: one.about_id for one in notices} == {CLIENT: WORKER, WORKER: None, BEFORE: WORKER}


@pytest.mark.parametrize(
    ("moment", "zone", "portuguese", "english"),
    [
        ("2026-01-05T17:00Z", "America/Bahia", "seg., 5 de jan., 14:00", "Mon, Jan 5, 2:00 PM"),
        # The local date is the next day, or the day before.
        ("2026-01-05T17:00Z", "Pacific/Kiritimati", "ter., 6 de jan., 07:00", "Tue, Jan 6, 7:00 AM"),
        ("2026-01-05T02:00Z", "Pacific/Niue", "dom., 4 de jan., 15:00", "Sun, Jan 4, 3:00 PM"),
        # Before and after clocks are set back.
        ("2025-11-02T05:30Z", "America/New_York", "dom., 2 de nov., 01:30", "Sun, Nov 2, 1:30 AM"),
        ("2025-11-02T07:30Z", "America/New_York", "dom., 2 de nov., 02:30", "Sun, Nov 2, 2:30 AM"),
        ("2026-03-14T18:30Z", "Asia/Kolkata", "dom., 15 de mar., 00:00", "Sun, Mar 15, 12:00 AM"),
    ],
)
def test_local_moment_in_each_language_and_zone(
    moment: str, zone: str, portuguese: str, english: str
) -> None:
    at = datetime.fromisoformat(moment)
    assert local_moment(at, scheduling.zone(zone), "pt-BR") == portuguese
    assert local_moment(at, scheduling.zone(zone), "en") == english
