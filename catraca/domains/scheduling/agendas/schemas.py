"""Bodies and answers of the routes for workers, services and rooms."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from catraca.domains.people import UserId
from catraca.domains.scheduling.agendas.model import (
    Room,
    Service,
    ServiceTerms,
    Worker,
    WorkerDetails,
    WorkerHours,
)
from catraca.domains.scheduling.calendar_math.holidays import Holidays
from catraca.domains.scheduling.calendar_math.hours import Minutes, WeeklyRule
from catraca.domains.scheduling.calendar_math.zones import MINUTES_A_DAY
from catraca.domains.scheduling.shared.schemas import ROOM_ID, SERVICE_ID, WORKER_ID, Ids, RetiredFlag
from catraca.platform.forms import Body, Day, Name, examples, split_page

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

    def to_details(self) -> WorkerDetails:
        place = self.holidays
        return WorkerDetails(
            name=self.name,
            time_zone=self.time_zone,
            holidays=None if place is None else Holidays(place.country, place.state),
        )


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

    def to_details(self) -> WorkerDetails:
        return replace(super().to_details(), retired=self.retired)


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


SERVICE: JsonDict = {
    "name": "Massagem",
    "duration_minutes": 60,
    "buffer_before_minutes": 0,
    "buffer_after_minutes": 15,
    "min_notice_minutes": 120,
    "horizon_days": 60,
    "slot_step_minutes": 30,
    "capacity": 1,
    "retired": False,
}
SERVICE_OUT: JsonDict = {"service_id": SERVICE_ID, **SERVICE}
ROOM_OUT: JsonDict = {"room_id": ROOM_ID, "name": "Sala 1", "retired": False}


class ServiceIdsIn(Body):
    model_config = examples({"service_ids": [SERVICE_ID]})

    service_ids: Ids


class ServiceIdsOut(BaseModel):
    model_config = examples({"service_ids": [SERVICE_ID]})

    service_ids: list[UUID]


class RoomIdsIn(Body):
    model_config = examples({"room_ids": [ROOM_ID]})

    room_ids: Ids


class RoomIdsOut(BaseModel):
    model_config = examples({"room_ids": [ROOM_ID]})

    room_ids: list[UUID]


class ServiceIn(Body):
    """A service and its terms."""

    model_config = examples(SERVICE)

    name: Name
    duration_minutes: Annotated[int, Field(strict=True, ge=1, le=1440)]
    buffer_before_minutes: Annotated[int, Field(strict=True, ge=0, le=1440)] = 0
    buffer_after_minutes: Annotated[int, Field(strict=True, ge=0, le=1440)] = 0
    min_notice_minutes: Annotated[
        int, Field(strict=True, ge=0, le=525_600, description="How long before the start at the latest.")
    ] = 0
    horizon_days: Annotated[
        int, Field(strict=True, ge=1, le=730, description="How many days ahead at the earliest.")
    ] = 60
    slot_step_minutes: Annotated[
        int | None,
        Field(strict=True, ge=1, le=1440, description="From slot to slot. Default: `duration_minutes`."),
    ] = None
    capacity: Annotated[int, Field(strict=True, ge=1, le=1000, description="Clients per session.")] = 1
    retired: RetiredFlag = False

    def to_terms(self) -> ServiceTerms:
        return ServiceTerms(
            **self.model_dump(exclude={"slot_step_minutes"}),
            slot_step_minutes=self.slot_step_minutes or self.duration_minutes,
        )


class ServiceOut(BaseModel):
    model_config = examples(SERVICE_OUT)

    service_id: UUID
    name: str
    duration_minutes: int
    buffer_before_minutes: int
    buffer_after_minutes: int
    min_notice_minutes: int
    horizon_days: int
    slot_step_minutes: int
    capacity: int
    retired: bool

    @classmethod
    def of(cls, service: Service) -> Self:
        return cls(service_id=service.id, **asdict(service.terms))


class ServicePage(BaseModel):
    model_config = examples({"services": [SERVICE_OUT], "next": None})

    services: list[ServiceOut]
    next: UUID | None

    @classmethod
    def of(cls, found: Sequence[Service], *, limit: int) -> Self:
        page, after = split_page(found, limit=limit, cursor=lambda service: service.id)
        return cls(services=[ServiceOut.of(service) for service in page], next=after)


class RoomIn(Body):
    model_config = examples({"name": "Sala 1"})

    name: Name


class RoomChangeIn(RoomIn):
    model_config = examples({"name": "Sala 1", "retired": False})

    retired: RetiredFlag = False


class RoomOut(BaseModel):
    model_config = examples(ROOM_OUT)

    room_id: UUID
    name: str
    retired: bool

    @classmethod
    def of(cls, room: Room) -> Self:
        return cls(room_id=room.id, name=room.name, retired=room.retired)


class RoomPage(BaseModel):
    model_config = examples({"rooms": [ROOM_OUT], "next": None})

    rooms: list[RoomOut]
    next: UUID | None

    @classmethod
    def of(cls, found: Sequence[Room], *, limit: int) -> Self:
        page, after = split_page(found, limit=limit, cursor=lambda room: room.id)
        return cls(rooms=[RoomOut.of(room) for room in page], next=after)
