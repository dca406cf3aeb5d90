"""Appointments as an iCalendar file (RFC 5545). Pure.

The file has service, time, room and worker, but no data about the client: calendars are often shared.
Of the library only escaping and folding are used, which are hard to get right; its components take a
millisecond per appointment.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Final

from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.shared.model import Names

PRODUCT: Final = "-//Catraca//Scheduling//EN"
MEDIA_TYPE: Final = "text/calendar; charset=utf-8"
TextLine = Callable[[str, str], str]


def write_calendar(
    appointments: Iterable[Appointment], names: Names, *, title: str, of_worker: bool = False
) -> bytes:
    """The same appointments give the same bytes. A worker's own calendar omits the worker's name."""
    # Services and rooms repeat, so their lines are cached.
    line = cache(_text_line)
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", f"PRODID:{PRODUCT}", line("X-WR-CALNAME", title)]
    for one in appointments:
        lines += _event(one, names, line, of_worker=of_worker)
    return "\r\n".join([*lines, "END:VCALENDAR", ""]).encode()


def _event(one: Appointment, names: Names, line: TextLine, *, of_worker: bool) -> Iterator[str]:
    service = names.services[one.service_id]
    changed = _moment(one.changed_at)
    yield "BEGIN:VEVENT"
    # UID identifies the appointment, SEQUENCE its version.
    yield f"UID:{one.id}@catraca"
    yield f"SEQUENCE:{one.sequence}"
    yield f"DTSTAMP:{changed}"
    yield f"CREATED:{_moment(one.created_at)}"
    yield f"LAST-MODIFIED:{changed}"
    yield f"DTSTART:{_moment(one.starts_at)}"
    yield f"DTEND:{_moment(one.ends_at)}"
    yield f"STATUS:{'CANCELLED' if one.status == 'CANCELED' else 'CONFIRMED'}"
    yield line("SUMMARY", service if of_worker else f"{service} - {names.subjects[one.worker_id]}")
    if one.room_id is not None:
        yield line("LOCATION", names.subjects[one.room_id])
    yield "END:VEVENT"


def _moment(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")


def _text_line(name: str, text: str) -> str:
    # Imported here: it loads slowly, and few processes write calendars.
    from icalendar import vText
    from icalendar.parser import Contentline, Parameters

    return Contentline.from_parts(name, Parameters(), vText(text)).to_ical().decode()  # pyright: ignore[reportUnknownMemberType]
