"""What the routes of availability give."""

from collections.abc import Callable
from datetime import date, datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.scheduling.model.diary import Slot
from catraca.domains.scheduling.model.explaining import LocalDay, Note
from catraca.domains.scheduling.model.spans import Seconds
from catraca.domains.scheduling.model.zones import at, local_time
from catraca.domains.scheduling.schemas import examples
from catraca.domains.scheduling.schemas.examples import shown_as
from catraca.domains.scheduling.service.explaining import OfWorker, Reason, Told
from catraca.domains.scheduling.service.looking import Page

# A code's words, in the caller's language, with what they speak of.
Words = Callable[[str, dict[str, object]], str]


class SlotOut(BaseModel):
    model_config = shown_as(examples.SLOT)

    worker_id: UUID
    starts_at: datetime
    ends_at: datetime
    seats_left: Annotated[int, Field(description="More than one where several clients come together.")]

    @classmethod
    def of(cls, slot: Slot, *, time_zone: str | None = None) -> Self:
        starts, ends = (_shown(moment, time_zone) for moment in (slot.starts, slot.ends))
        return cls(worker_id=slot.worker_id, starts_at=starts, ends_at=ends, seats_left=slot.seats_left)


def _shown(moment: Seconds, time_zone: str | None) -> datetime:
    return at(moment) if time_zone is None else local_time(time_zone, moment)


class SlotPage(BaseModel):
    model_config = shown_as({"slots": [examples.SLOT], "next": None})

    slots: list[SlotOut]
    next: Annotated[str | None, Field(description="Send it as `after` for the next page.")]

    @classmethod
    def of(cls, page: Page, *, time_zone: str | None) -> Self:
        last = page.slots[-1] if page.more else None
        return cls(
            slots=[SlotOut.of(slot, time_zone=time_zone) for slot in page.slots],
            next=last and f"{last.starts}.{last.worker_id}",
        )


class WorkedOut(BaseModel):
    starts_at: datetime
    ends_at: datetime


class LocalDayOut(BaseModel):
    """What is worked on the local day of the time in question, by the clocks of the worker."""

    day: date
    shifts: Annotated[list[WorkedOut], Field(description="Those that touch the day, whole.")]
    closed_by: Annotated[
        Literal["override", "holiday", "no_rule", "clocks"] | None,
        Field(description="Why no shift begins on it; `clocks`: its hours are skipped that day."),
    ]
    holiday: Annotated[str | None, Field(description="What is celebrated.")]

    @classmethod
    def of(cls, day: LocalDay, *, time_zone: str) -> Self:
        return cls(
            day=day.day,
            shifts=[
                WorkedOut(starts_at=local_time(time_zone, start), ends_at=local_time(time_zone, end))
                for start, end in day.shifts
            ],
            closed_by=day.closed_by,
            holiday=day.holiday,
        )


class InTheWayOut(BaseModel):
    """For operators, and for workers of their own time."""

    appointments: list[UUID]
    time_off: list[UUID]


class ReasonOut(BaseModel):
    """Which of the further fields there are depends on the code."""

    code: str
    message: str
    earliest: Annotated[datetime | None, Field(description="Of `too_soon`: from then on.")] = None
    latest: Annotated[datetime | None, Field(description="Of `beyond_horizon`: until then.")] = None
    day: Annotated[LocalDayOut | None, Field(description="Of `outside_hours`.")] = None
    before: Annotated[datetime | None, Field(description="Of `off_grid`: the last time that is on it.")] = (
        None
    )
    after: Annotated[datetime | None, Field(description="Of `off_grid`: the next.")] = None
    in_the_way: Annotated[InTheWayOut | None, Field(description="Of `busy`, `full` and `no_room`.")] = None

    @classmethod
    def of(cls, reason: Reason, words: Words, *, worker_zone: str, time_zone: str | None) -> Self:
        details, way = reason.details, reason.in_the_way
        times = {
            name: _shown(moment, time_zone)
            for name in ("earliest", "latest", "before", "after")
            if (moment := getattr(details, name)) is not None
        }
        return cls(
            code=reason.fault,
            message=words(reason.fault, {}),
            day=details.day and LocalDayOut.of(details.day, time_zone=worker_zone),
            in_the_way=way and InTheWayOut(appointments=list(way.appointments), time_off=list(way.time_off)),
            **times,
        )


class NoteOut(BaseModel):
    """What is odd about that time at the worker's place."""

    code: Literal["clocks_skip", "clocks_repeat"]
    message: str
    moments: Annotated[
        list[datetime], Field(description="When clocks there show it; skipped, what is taken for it.")
    ]

    @classmethod
    def of(cls, note: Note, words: Words, *, worker_zone: str) -> Self:
        moments = [local_time(worker_zone, moment) for moment in note.moments]
        times = {"time": note.local.strftime("%H:%M"), "shown": moments[0].strftime("%H:%M")}
        return cls(code=note.code, message=words(note.code, {**times}), moments=moments)


class WorkerReasonsOut(BaseModel):
    worker_id: UUID
    time_zone: str
    local_starts_at: Annotated[datetime, Field(description="The time in question by the worker's clocks.")]
    offered: bool
    reasons: list[ReasonOut]
    notes: list[NoteOut]

    @classmethod
    def of(cls, one: OfWorker, words: Words, *, starts: Seconds, time_zone: str | None) -> Self:
        zone = one.worker.time_zone
        return cls(
            worker_id=one.worker.id,
            time_zone=zone,
            local_starts_at=local_time(zone, starts),
            offered=not one.reasons,
            reasons=[
                ReasonOut.of(reason, words, worker_zone=zone, time_zone=time_zone) for reason in one.reasons
            ],
            notes=[] if one.note is None else [NoteOut.of(one.note, words, worker_zone=zone)],
        )


class ExplanationOut(BaseModel):
    """Why a time is offered or not, worker by worker."""

    model_config = shown_as(examples.EXPLAINED)

    offered: bool
    reasons: Annotated[list[ReasonOut], Field(description="Why there is nobody who could do it.")]
    workers: list[WorkerReasonsOut]
    alternatives: list[SlotOut]

    @classmethod
    def of(cls, told: Told, words: Words, *, starts: Seconds, time_zone: str | None) -> Self:
        nobody = told.nobody
        workers = [
            WorkerReasonsOut.of(one, words, starts=starts, time_zone=time_zone) for one in told.workers
        ]
        return cls(
            offered=any(one.offered for one in workers),
            reasons=[] if nobody is None else [ReasonOut(code=nobody, message=words(nobody, {}))],
            workers=workers,
            alternatives=[SlotOut.of(slot, time_zone=time_zone) for slot in told.alternatives],
        )
