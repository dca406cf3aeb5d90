"""iCalendar files, parsed by another library: all data is kept."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import icalendar
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catraca.domains.scheduling.appointments.model import Appointment, Client, Status
from catraca.domains.scheduling.calendars.model import write_calendar
from catraca.domains.scheduling.shared.model import AppointmentId, Names, ServiceId, SubjectId, SubjectNo

SERVICE, WORKER, ROOM = (uuid4() for _ in range(3))
STARTS = datetime(2026, 1, 5, 17, tzinfo=UTC)
LINE_OCTETS = 75
# Valid names: one line of visible text.
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=100).filter(
    lambda name: name.strip() == name
)


def appointment(**changes: object) -> Appointment:
    usual = Appointment(
        id=AppointmentId(UUID(int=1)),
        service_id=ServiceId(SERVICE),
        worker_id=SubjectId(WORKER),
        worker_no=SubjectNo(1),
        worker_user_id=None,
        client=Client(name="Maria Souza", contact="+5571987654321"),
        status="BOOKED",
        session_id=None,
        capacity=1,
        starts_at=STARTS,
        ends_at=STARTS + timedelta(hours=1),
        local_starts_at=STARTS.replace(tzinfo=None),
        time_zone="America/Bahia",
        tzdata_version="2026a",
        expires_at=None,
        sequence=3,
        canceled_by=None,
        cancel_reason="moved away",
        created_at=STARTS - timedelta(days=9),
        changed_at=STARTS - timedelta(days=2, microseconds=1),
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


def named(service: str = "Consulta", worker: str = "Ana", room: str = "Sala 1") -> Names:
    return Names({SERVICE: service}, {WORKER: worker, ROOM: room})


def written(one: Appointment, names: Names | None = None, *, of_worker: bool = False) -> bytes:
    return write_calendar([one], names or named(), title="Ana", of_worker=of_worker)


def read(calendar: bytes) -> list[icalendar.Event]:
    return icalendar.Calendar.from_ical(calendar).events  # type: ignore[attr-defined]


def test_an_appointment_is_an_event_with_all_that_calendars_need() -> None:
    calendar = icalendar.Calendar.from_ical(written(appointment(room_id=ROOM)))
    assert (calendar["prodid"], calendar["version"]) == ("-//Catraca//Scheduling//EN", "2.0")
    assert calendar["x-wr-calname"] == "Ana"
    (event,) = calendar.events  # type: ignore[attr-defined]
    assert event["uid"] == "00000000-0000-0000-0000-000000000001@catraca"
    assert (event["sequence"], event["status"]) == (3, "CONFIRMED")
    assert (event.decoded("dtstart"), event.decoded("dtend")) == (STARTS, STARTS + timedelta(hours=1))
    assert event["dtstart"].to_ical() == b"20260105T170000Z", "in UTC, so that calendars need no zone data"
    assert (
        event.decoded("dtstamp")
        == event.decoded("last-modified")
        == datetime(2026, 1, 3, 16, 59, 59, tzinfo=UTC)
    )
    assert event.decoded("created") == STARTS - timedelta(days=9)
    assert (event["summary"], event["location"]) == ("Consulta - Ana", "Sala 1")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("BOOKED", "CONFIRMED"),
        ("CONFIRMED", "CONFIRMED"),
        ("NO_SHOW", "CONFIRMED"),
        ("CANCELED", "CANCELLED"),
    ],
)
def test_canceled_entries_use_the_standards_spelling(status: Status, expected: str) -> None:
    (event,) = read(written(appointment(status=status)))
    assert event["status"] == expected


def test_calendars_never_name_clients() -> None:
    for of_worker in (False, True):
        calendar = written(appointment(canceled_by="client", status="CANCELED"), of_worker=of_worker).decode()
        assert not [part for part in ("Maria", "5571", "moved away") if part in calendar]
    (event,) = read(written(appointment(), of_worker=True))
    assert event["summary"] == "Consulta"


@given(NAMES, NAMES, NAMES)
@example(
    "Avaliação; com, vírgulas \\ e \\n barras", "Müller \u2615 " + "ü" * 80 + ".", 'Sala: "A", 2º; andar'
)
@example("BEGIN:VEVENT", "END:VCALENDAR", "a;b=c:d")
def test_any_name_comes_back_as_it_was_and_lines_are_folded(service: str, worker: str, room: str) -> None:
    calendar = written(appointment(room_id=ROOM), named(service, worker, room))
    assert calendar.endswith(b"END:VCALENDAR\r\n")
    lines = calendar.split(b"\r\n")
    assert max(len(line) for line in lines) <= LINE_OCTETS
    assert b"\n" not in b"".join(lines)
    for line in lines:
        line.decode()  # no character is split
    (event,) = read(calendar)
    assert event["summary"] == f"{service} - {worker}"
    assert event["location"] == room


def test_a_calendar_file_is_deterministic_even_when_empty() -> None:
    assert written(appointment()) == written(appointment())
    assert read(write_calendar([], named(), title="Ana")) == []


def test_the_calendar_library_is_imported_only_when_used() -> None:
    code = "import sys, catraca.roles.api; sys.exit('icalendar' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
