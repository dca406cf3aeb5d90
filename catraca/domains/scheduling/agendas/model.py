"""Workers and their hours."""

from collections.abc import Sequence
from dataclasses import dataclass

from catraca.domains.people import UserId
from catraca.domains.scheduling.calendar_math.holidays import Holidays
from catraca.domains.scheduling.calendar_math.hours import Hours
from catraca.domains.scheduling.shared.model import AppointmentId, SubjectId, SubjectNo


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    id: SubjectId
    no: SubjectNo
    name: str
    time_zone: str
    user_id: UserId | None = None
    holidays: Holidays | None = None
    retired: bool = False


@dataclass(frozen=True, slots=True)
class WorkerHours:
    worker: Worker
    hours: Hours
    # Upcoming appointments that a change of the hours has left outside them.
    outside: Sequence[AppointmentId] = ()
