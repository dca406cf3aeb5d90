"""Services and rooms."""

from collections.abc import Sequence
from dataclasses import dataclass

from catraca.domains.scheduling.calendar_math.hours import WeeklyRule
from catraca.domains.scheduling.shared.model import ServiceId, SubjectId, SubjectNo


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    id: SubjectId
    no: SubjectNo
    name: str
    retired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTerms:
    """What an operator sets of a service."""

    name: str
    duration_minutes: int
    buffer_before_minutes: int = 0
    buffer_after_minutes: int = 0
    min_notice_minutes: int = 0
    horizon_days: int = 60
    slot_step_minutes: int
    # Clients per session.
    capacity: int = 1
    retired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    id: ServiceId
    terms: ServiceTerms


@dataclass(frozen=True, slots=True)
class NewWorker:
    name: str
    time_zone: str
    rules: Sequence[WeeklyRule]
