"""Appointments as an iCalendar file (RFC 5545), for calendars elsewhere. Pure.

What leaves for a calendar leaves for whoever keeps that calendar: what, when, where and with whom, and never
who comes. The library's components take a millisecond an appointment; of it only that is used which is hard
to get right, escaping and folding.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Final

from catraca.domains.scheduling.model.agendas import Appointment, Names

PRODUCT: Final = "-//Catraca//Scheduling//EN"
MEDIA_TYPE: Final = "text/calendar; charset=utf-8"
Line = Callable[[str, str], str]


def write_calendar(
    appointments: Iterable[Appointment], names: Names, *, title: str, of_worker: bool = False
) -> bytes:
    """The same appointments make the same bytes. A worker's own calendar does not say whose they are."""
    # Each line once: of services and rooms there are few.
    line = cache(_text_line)
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", f"PRODID:{PRODUCT}", line("X-WR-CALNAME", title)]
    for one in appointments:
        lines += _event(one, names, line, of_worker=of_worker)
    return "\r\n".join([*lines, "END:VCALENDAR", ""]).encode()


def _event(one: Appointment, names: Names, line: Line, *, of_worker: bool) -> Iterator[str]:
    service = names.services[one.service_id]
    changed = _moment(one.changed_at)
    yield "BEGIN:VEVENT"
    # By these two, calendars know that it is the same appointment, and which version is newer.
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
    # Slow to load, and few processes write calendars.
    from icalendar import vText
    from icalendar.parser import Contentline, Parameters

    return Contentline.from_parts(name, Parameters(), vText(text)).to_ical().decode()  # pyright: ignore[reportUnknownMemberType]
