"""Workers with their hours, rooms and services."""

from collections.abc import Sequence
from dataclasses import dataclass

from catraca.domains.people import UserId
from catraca.domains.scheduling.calendar_math.holidays import Holidays, is_known
from catraca.domains.scheduling.calendar_math.hours import Hours, WeeklyRule
from catraca.domains.scheduling.calendar_math.zones import zone_names
from catraca.domains.scheduling.shared.model import AppointmentId, ServiceId, SubjectId, SubjectNo


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDetails:
    """The fields of a worker that an operator sets."""

    name: str
    time_zone: str
    holidays: Holidays | None = None
    retired: bool = False

    @property
    def has_known_place(self) -> bool:
        """False if this version does not know the time zone or the place of the holidays."""
        return self.time_zone in zone_names() and (self.holidays is None or is_known(self.holidays))


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(WorkerDetails):
    id: SubjectId
    no: SubjectNo
    user_id: UserId | None = None


@dataclass(frozen=True, slots=True)
class WorkerHours:
    worker: Worker
    hours: Hours
    # Upcoming appointments that a change of the hours has left outside them.
    outside: Sequence[AppointmentId] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    id: SubjectId
    no: SubjectNo
    name: str
    retired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTerms:
    """The fields of a service that an operator sets."""

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
