"""What the routes of workers, their hours and their time off take and give."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field, model_validator
from pydantic_core import PydanticCustomError

from catraca.domains.people import Name, Reason, UserId
from catraca.domains.scheduling.model.agendas import Worker
from catraca.domains.scheduling.model.days_off import Holidays
from catraca.domains.scheduling.model.hours import Hours, Rule
from catraca.domains.scheduling.schemas import examples
from catraca.domains.scheduling.schemas.examples import shown_as
from catraca.domains.scheduling.schemas.fields import (
    Body,
    Day,
    Flag,
    Ids,
    Shift,
    WholeMoment,
    ZoneName,
    time_of,
)
from catraca.domains.scheduling.store.claims import TimeOff

MOST_RULES = 100
MOST_OVERRIDES = 400
MOST_SHIFTS = 10


class HolidaysIn(Body):
    """Whose public holidays are days off, by ISO 3166."""

    country: Annotated[str, Field(pattern="^[A-Z]{2}$", examples=["BR"])]
    state: Annotated[str | None, Field(max_length=10, examples=["SP"])] = None


class WorkerFields(Body):
    name: Name
    time_zone: ZoneName
    holidays: HolidaysIn | None = None

    def to_holidays(self) -> Holidays | None:
        return None if self.holidays is None else Holidays(self.holidays.country, self.holidays.state)


class WorkerIn(WorkerFields):
    model_config = shown_as({**examples.WORKER, "user_id": None})

    user_id: Annotated[
        UUID | None, Field(description="The worker's own account: they may then see to their agenda.")
    ] = None

    def to_user_id(self) -> UserId | None:
        return None if self.user_id is None else UserId(self.user_id)


class WorkerChangeIn(WorkerFields):
    """All that an operator says of a worker, whose account stays."""

    model_config = shown_as({**examples.WORKER, "retired": False})

    retired: Annotated[Flag, Field(description="Not to be booked any more.")] = False


class WorkerOut(BaseModel):
    model_config = shown_as(examples.WORKER_SEEN)

    worker_id: UUID
    name: str
    time_zone: str
    holidays: HolidaysIn | None
    retired: bool

    @classmethod
    def of(cls, worker: Worker) -> Self:
        return cls(
            worker_id=worker.id,
            name=worker.name,
            time_zone=worker.time_zone,
            holidays=None
            if worker.holidays is None
            else HolidaysIn(country=worker.holidays.country, state=worker.holidays.state),
            retired=worker.retired,
        )


class WorkerChangedOut(WorkerOut):
    model_config = shown_as({**examples.WORKER_SEEN, "outside": []})

    outside: Annotated[
        list[UUID],
        Field(description="Upcoming appointments that now lie outside the hours; they stay as they are."),
    ] = []


class WorkerPage(BaseModel):
    model_config = shown_as({"workers": [examples.WORKER_SEEN], "next": None})

    workers: list[WorkerOut]
    next: UUID | None

    @classmethod
    def of(cls, found: Sequence[Worker], *, limit: int) -> Self:
        page = found[:limit]
        return cls(
            workers=[WorkerOut.of(worker) for worker in page],
            next=page[-1].id if len(found) > limit else None,
        )


class RuleIn(Shift):
    """Hours of every such weekday."""

    model_config = shown_as(examples.RULE, examples.NIGHT)

    weekday: Annotated[int, Field(ge=1, le=7, description="ISO 8601: Monday is 1, Sunday 7.")]
    valid_from: Day | None = None
    valid_to: Annotated[Day | None, Field(description="The last day.")] = None

    @model_validator(mode="after")
    def _ends_after_it_begins(self) -> Self:
        if self.valid_from is not None and self.valid_to is not None and self.valid_to < self.valid_from:
            raise PydanticCustomError("validity_ends_first", "validity_ends_first")
        return self

    def to_rule(self) -> Rule:
        return Rule(self.weekday, *self.minutes(), self.valid_from, self.valid_to)

    @classmethod
    def of(cls, rule: Rule) -> Self:
        return cls(
            weekday=rule.weekday,
            start=time_of(rule.start_minute),
            end=time_of(rule.end_minute),
            valid_from=rule.valid_from,
            valid_to=rule.valid_to,
        )


class OverrideIn(Body):
    """A day that is not like its weekday: these hours and no others, or none."""

    model_config = shown_as(examples.OVERRIDE, examples.DAY_OFF)

    day: Day
    shifts: Annotated[list[Shift], Field(max_length=MOST_SHIFTS, description="None: a day off.")]

    def minutes(self) -> list[tuple[int, int]]:
        return [shift.minutes() for shift in self.shifts]


Rules = Annotated[list[RuleIn], Field(max_length=MOST_RULES)]
Overrides = Annotated[list[OverrideIn], Field(max_length=MOST_OVERRIDES)]


class HoursOut(BaseModel):
    """When a worker works, by the clocks of their zone."""

    model_config = shown_as(examples.HOURS)

    worker_id: UUID
    time_zone: str
    rules: list[RuleIn]
    overrides: list[OverrideIn]
    outside: Annotated[
        list[UUID],
        Field(description="Upcoming appointments that now lie outside the hours; they stay as they are."),
    ] = []

    @classmethod
    def of(cls, worker: Worker, hours: Hours, outside: Sequence[UUID] = ()) -> Self:
        return cls(
            worker_id=worker.id,
            time_zone=worker.time_zone,
            rules=[RuleIn.of(rule) for rule in hours.rules],
            overrides=[
                OverrideIn(day=day, shifts=[Shift(start=time_of(s), end=time_of(e)) for s, e in shifts])
                for day, shifts in hours.overrides.items()
            ],
            outside=list(outside),
        )


class TimeOffIn(Body):
    model_config = shown_as(examples.AWAY)

    starts_at: WholeMoment
    ends_at: WholeMoment
    reason: Reason | None = None


class TimeOffOut(BaseModel):
    model_config = shown_as(examples.AWAY_SEEN)

    time_off_id: UUID
    starts_at: datetime
    ends_at: datetime
    reason: str | None

    @classmethod
    def of(cls, time_off: TimeOff) -> Self:
        return cls(
            time_off_id=time_off.id,
            starts_at=time_off.starts_at,
            ends_at=time_off.ends_at,
            reason=time_off.reason,
        )


class TimeOffList(BaseModel):
    model_config = shown_as({"time_off": [examples.AWAY_SEEN]})

    time_off: list[TimeOffOut]


class ServiceIdsIn(Body):
    model_config = shown_as({"service_ids": [examples.MASSAGE]})

    service_ids: Ids


class ServiceIdsOut(BaseModel):
    model_config = shown_as({"service_ids": [examples.MASSAGE]})

    service_ids: list[UUID]
