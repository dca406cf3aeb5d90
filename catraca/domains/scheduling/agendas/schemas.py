"""Bodies and answers of the routes for workers and their hours."""

from collections.abc import Sequence
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from catraca.domains.people import UserId
from catraca.domains.scheduling.agendas.model import Worker, WorkerHours
from catraca.domains.scheduling.calendar_math.holidays import Holidays
from catraca.domains.scheduling.calendar_math.hours import Minutes, WeeklyRule
from catraca.domains.scheduling.calendar_math.zones import MINUTES_A_DAY
from catraca.domains.scheduling.shared.schemas import WORKER_ID, Day, RetiredFlag
from catraca.platform.forms import Body, Name, examples, split_page

MAX_RULES = 100
MAX_OVERRIDES = 400
MAX_SHIFTS = 10

TimeOfDay = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$", examples=["09:00"])]
EndOfDay = Annotated[str, Field(pattern=r"^(([01]\d|2[0-3]):[0-5]\d|24:00)$", examples=["18:00"])]
ZoneName = Annotated[str, Field(min_length=1, max_length=64, examples=["America/Bahia"])]
OutsideIds = Annotated[
    list[UUID], Field(description="Upcoming appointments outside the new hours. They are not moved.")
]

WORKER: JsonDict = {
    "name": "Ana Souza",
    "time_zone": "America/Bahia",
    "holidays": {"country": "BR", "state": "BA"},
}
WORKER_OUT: JsonDict = {"worker_id": WORKER_ID, **WORKER, "retired": False}
MORNING: JsonDict = {"start": "09:00", "end": "12:00"}
RULE: JsonDict = {"weekday": 1, **MORNING, "valid_from": None, "valid_to": None}
NIGHT: JsonDict = {"weekday": 5, "start": "22:00", "end": "06:00", "valid_from": None, "valid_to": None}
OVERRIDE: JsonDict = {"day": "2026-12-24", "shifts": [MORNING]}
DAY_OFF: JsonDict = {"day": "2026-12-26", "shifts": []}
HOURS: JsonDict = {
    "worker_id": WORKER_ID,
    "time_zone": "America/Bahia",
    "rules": [RULE, NIGHT],
    "overrides": [OVERRIDE, DAY_OFF],
    "outside": [],
}


# Workers


class HolidaysIn(Body):
    """The place whose public holidays are days off, by ISO 3166."""

    country: Annotated[str, Field(pattern="^[A-Z]{2}$", examples=["BR"])]
    state: Annotated[str | None, Field(max_length=10, examples=["SP"])] = None


class WorkerFields(Body):
    name: Name
    time_zone: ZoneName
    holidays: HolidaysIn | None = None

    def to_holidays(self) -> Holidays | None:
        return None if self.holidays is None else Holidays(self.holidays.country, self.holidays.state)


class WorkerIn(WorkerFields):
    model_config = examples({**WORKER, "user_id": None})

    user_id: Annotated[
        UUID | None, Field(description="The worker's account, which may then manage its own agenda.")
    ] = None

    def to_user_id(self) -> UserId | None:
        return None if self.user_id is None else UserId(self.user_id)


class WorkerChangeIn(WorkerFields):
    """All fields of a worker; the account does not change."""

    model_config = examples({**WORKER, "retired": False})

    retired: RetiredFlag = False


class WorkerOut(BaseModel):
    model_config = examples(WORKER_OUT)

    worker_id: UUID
    name: str
    time_zone: str
    holidays: HolidaysIn | None
    retired: bool

    @classmethod
    def of(cls, worker: Worker) -> Self:
        place = worker.holidays
        return cls(
            worker_id=worker.id,
            name=worker.name,
            time_zone=worker.time_zone,
            holidays=None if place is None else HolidaysIn(country=place.country, state=place.state),
            retired=worker.retired,
        )


class WorkerChangedOut(WorkerOut):
    model_config = examples({**WORKER_OUT, "outside": []})

    outside: OutsideIds = []


class WorkerPage(BaseModel):
    model_config = examples({"workers": [WORKER_OUT], "next": None})

    workers: list[WorkerOut]
    next: UUID | None

    @classmethod
    def of(cls, found: Sequence[Worker], *, limit: int) -> Self:
        page, after = split_page(found, limit=limit, cursor=lambda worker: worker.id)
        return cls(workers=[WorkerOut.of(worker) for worker in page], next=after)


# Hours


class Shift(Body):
    """Hours of a day. An end at or before the start is on the next day: 22:00-06:00 is a night shift."""

    start: TimeOfDay
    end: EndOfDay

    def minutes(self) -> Minutes:
        start, end = _minute_of(self.start), _minute_of(self.end)
        return start, end if end > start else end + MINUTES_A_DAY


def _minute_of(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def _time_of(minute: int) -> str:
    """24:00 is an end only; later minutes are on the next day."""
    if minute != MINUTES_A_DAY:
        minute %= MINUTES_A_DAY
    return f"{minute // 60:02}:{minute % 60:02}"


class RuleIn(Shift):
    """Hours of a weekday, every week."""

    model_config = examples(RULE, NIGHT)

    weekday: Annotated[int, Field(ge=1, le=7, description="ISO 8601: Monday is 1, Sunday 7.")]
    valid_from: Day | None = None
    valid_to: Annotated[Day | None, Field(description="The last day.")] = None

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.valid_from is not None and self.valid_to is not None and self.valid_to < self.valid_from:
            raise PydanticCustomError("validity_ends_first", "validity_ends_first")
        return self

    def to_rule(self) -> WeeklyRule:
        return WeeklyRule(self.weekday, *self.minutes(), self.valid_from, self.valid_to)

    @classmethod
    def of(cls, rule: WeeklyRule) -> Self:
        return cls(
            weekday=rule.weekday,
            start=_time_of(rule.start_minute),
            end=_time_of(rule.end_minute),
            valid_from=rule.valid_from,
            valid_to=rule.valid_to,
        )


class OverrideIn(Body):
    """The hours of one day, instead of those by weekly rules and holidays."""

    model_config = examples(OVERRIDE, DAY_OFF)

    day: Day
    shifts: Annotated[list[Shift], Field(max_length=MAX_SHIFTS, description="Empty: a day off.")]

    def minutes(self) -> list[Minutes]:
        return [shift.minutes() for shift in self.shifts]


Rules = Annotated[list[RuleIn], Field(max_length=MAX_RULES)]
Overrides = Annotated[list[OverrideIn], Field(max_length=MAX_OVERRIDES)]


class HoursOut(BaseModel):
    """When a worker works, in local time."""

    model_config = examples(HOURS)

    worker_id: UUID
    time_zone: str
    rules: list[RuleIn]
    overrides: list[OverrideIn]
    outside: OutsideIds = []

    @classmethod
    def of(cls, found: WorkerHours) -> Self:
        return cls(
            worker_id=found.worker.id,
            time_zone=found.worker.time_zone,
            rules=[RuleIn.of(rule) for rule in found.hours.rules],
            overrides=[
                OverrideIn(day=day, shifts=[Shift(start=_time_of(s), end=_time_of(e)) for s, e in shifts])
                for day, shifts in found.hours.overrides.items()
            ],
            outside=list(found.outside),
        )
