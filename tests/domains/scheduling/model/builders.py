"""Agendas without a database, around a day in a zone."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from catraca.domains.scheduling.agendas.model import Service, ServiceTerms, Worker
from catraca.domains.scheduling.availability.model import Agenda, ServiceSchedule, Session
from catraca.domains.scheduling.calendar_math.hours import Hours, WeeklyRule
from catraca.domains.scheduling.calendar_math.spans import Seconds, Span, merge
from catraca.domains.scheduling.calendar_math.zones import zone
from catraca.domains.scheduling.shared.model import ServiceId, SessionId, SubjectId, SubjectNo

HOUR = 3600
DAY = 24 * HOUR
# Zones, and local days with a clock change: by an hour in the night or at midnight, by half an hour, by a
# whole day.
SWITCHES = [
    ("America/New_York", date(2025, 3, 9)),
    ("America/New_York", date(2025, 11, 2)),
    ("America/Sao_Paulo", date(2018, 11, 4)),
    ("America/Sao_Paulo", date(2018, 2, 17)),
    ("America/St_Johns", date(2010, 11, 7)),
    ("America/Nuuk", date(2025, 3, 29)),
    ("Africa/Cairo", date(2024, 10, 31)),
    ("Africa/Casablanca", date(2025, 2, 23)),
    ("Asia/Kolkata", date(2025, 6, 1)),
    ("Australia/Lord_Howe", date(2025, 4, 6)),
    ("Australia/Lord_Howe", date(2025, 10, 5)),
    ("Pacific/Apia", date(2011, 12, 30)),
]
switches = st.sampled_from(SWITCHES)


def clock(zone_name: str, text: str, *, fold: int = 0) -> Seconds:
    """The moment of a local time; with `fold`, its second occurrence."""
    local = datetime.fromisoformat(text).replace(tzinfo=zone(zone_name), fold=fold)
    return int(local.timestamp())


def on(day: date, start: str, end: str) -> Hours:
    """Hours of one weekday in UTC."""
    return Hours("UTC", [rule(day, start, end)])


def rule(day: date, start: str, end: str, **validity: date) -> WeeklyRule:
    """A rule for the day's weekday; an end at or before the start is on the next day."""
    first, last = _minute(start), _minute(end)
    return WeeklyRule(day.isoweekday(), first, last if last > first else last + 1440, **validity)


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def minutes_worked(zone_name: str, day: date, start: str, end: str) -> int:
    """The elapsed minutes of a shift that begins on that day."""
    around = _around(zone_name, day)
    hours = Hours(zone_name, overrides={day: [_span(start, end)]})
    return sum(last - first for first, last in merge(hours.shifts(around))) // 60


def _span(start: str, end: str) -> tuple[int, int]:
    first, last = _minute(start), _minute(end)
    return first, last if last > first else last + 1440


def _around(zone_name: str, day: date) -> Span:
    noon = clock(zone_name, f"{day.isoformat()}T12:00")
    return noon - 3 * DAY, noon + 3 * DAY


def worker(no: int = 1, zone_name: str = "UTC") -> Worker:
    return Worker(id=SubjectId(UUID(int=no)), no=SubjectNo(no), name="Ana", time_zone=zone_name)


def service(**terms: Any) -> Service:
    minutes = {"duration_minutes": 60, "slot_step_minutes": 30, "horizon_days": 60}
    return Service(id=ServiceId(UUID(int=99)), terms=ServiceTerms(name="Consulta", **(minutes | terms)))


def agenda(
    hours: Hours,
    within: Span,
    *,
    no: int = 1,
    busy: Iterable[Span] = (),
    sessions: Mapping[Seconds, Session] | None = None,
    **more: Any,
) -> Agenda:
    return Agenda(worker(no, hours.time_zone), hours, within, merge(busy), sessions or {}, **more)


def session(finishes: Seconds, capacity: int, taken: int, *, no: int = 1) -> Session:
    return Session(SessionId(UUID(int=no)), finishes, capacity, taken)


def diary(
    agendas: Agenda | Sequence[Agenda],
    *,
    now: Seconds = 0,
    rooms: Mapping[int, Sequence[Span]] | None = None,
    **terms: Any,
) -> ServiceSchedule:
    """A schedule at `now`; by default a service of an hour every half hour."""
    each = [agendas] if isinstance(agendas, Agenda) else agendas
    taken = None if rooms is None else {SubjectNo(no): merge(busy) for no, busy in rooms.items()}
    return ServiceSchedule(service(**terms), each, taken, now)


def days_around(day: date) -> list[date]:
    return [day + timedelta(days=days) for days in range(-3, 4)]
