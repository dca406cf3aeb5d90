"""Answers with slots, and the answer that explains a time."""

from collections.abc import Callable
from datetime import date, datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from catraca.domains.scheduling.availability.model import ClockNote, LocalDay, Slot
from catraca.domains.scheduling.availability.service import (
    ConflictDetails,
    Explanation,
    SlotsFound,
    WorkerExplanation,
)
from catraca.domains.scheduling.calendar_math.spans import Seconds
from catraca.domains.scheduling.calendar_math.zones import local_time, to_datetime
from catraca.domains.scheduling.shared.schemas import ELEVEN, TEN, WORKER_ID, refused
from catraca.platform.forms import Next, examples

SLOT: JsonDict = {"worker_id": WORKER_ID, "starts_at": TEN, "ends_at": ELEVEN, "seats_left": 1}

_ALTERNATIVES = {
    "type": "array",
    "items": {"$ref": "#/components/schemas/SlotOut"},
    "description": "The nearest free slots, sorted; empty if there is none within a week.",
}
_FAULTS = {
    "type": "array",
    "items": {"type": "string"},
    "description": "Why the time is not a slot, with the codes of `/availability/explain`;"
    " `no_worker`: no worker, or not this one, does the service.",
}
SLOT_TAKEN = refused(
    409,
    "The time is taken: `slot_taken`, with the nearest `alternatives`",
    "slot_taken",
    'Somebody was faster. These times are still free: see "alternatives".',
    {"alternatives": [SLOT]},
    alternatives=_ALTERNATIVES,
)
SLOT_NOT_OFFERED = refused(
    422,
    "The request is not valid; or the time is not a slot: `slot_not_offered`, with `faults`, `alternatives`",
    "slot_not_offered",
    'That time is not offered; "faults" says why, "alternatives" what is free near it.',
    {"faults": ["off_grid"], "alternatives": [SLOT]},
    faults=_FAULTS,
    alternatives=_ALTERNATIVES,
)


class SlotOut(BaseModel):
    model_config = examples(SLOT)

    worker_id: UUID
    starts_at: datetime
    ends_at: datetime
    seats_left: Annotated[int, Field(description="More than one if several clients can come together.")]

    @classmethod
    def of(cls, slot: Slot, *, time_zone: str | None = None) -> Self:
        starts, ends = (in_zone(moment, time_zone) for moment in (slot.starts, slot.ends))
        return cls(worker_id=slot.worker_id, starts_at=starts, ends_at=ends, seats_left=slot.seats_left)


def in_zone(moment: Seconds, time_zone: str | None) -> datetime:
    return to_datetime(moment) if time_zone is None else local_time(time_zone, moment)


class SlotPage(BaseModel):
    model_config = examples({"slots": [SLOT], "next": None})

    slots: list[SlotOut]
    next: Next[str]

    @classmethod
    def of(cls, found: SlotsFound, *, time_zone: str | None) -> Self:
        last = found.slots[-1] if found.has_more else None
        return cls(
            slots=[SlotOut.of(slot, time_zone=time_zone) for slot in found.slots],
            next=last and f"{last.starts}.{last.worker_id}",
        )


# The text of a code in the caller's language, with its values.
Text = Callable[[str, dict[str, object]], str]

EXPLANATION: JsonDict = {
    "offered": False,
    "reasons": [],
    "workers": [
        {
            "worker_id": WORKER_ID,
            "time_zone": "America/Bahia",
            "local_starts_at": "2026-12-25T09:00:00-03:00",
            "offered": False,
            "reasons": [
                {
                    "code": "outside_hours",
                    "message": "The worker does not work then, or not long enough.",
                    "day": {
                        "day": "2026-12-25",
                        "shifts": [],
                        "closed_by": "holiday",
                        "holiday": "Christmas Day",
                    },
                }
            ],
            "notes": [],
        }
    ],
    "alternatives": [SLOT],
}


class WorkedOut(BaseModel):
    starts_at: datetime
    ends_at: datetime


class LocalDayOut(BaseModel):
    """The worker's shifts on the local day of the requested time."""

    day: date
    shifts: Annotated[list[WorkedOut], Field(description="The shifts that overlap the day, whole.")]
    closed_by: Annotated[
        Literal["override", "holiday", "no_rule", "clocks"] | None,
        Field(description="Why no shift starts on this day; `clocks`: clocks skip its hours."),
    ]
    holiday: Annotated[str | None, Field(description="The holiday's name.")]

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
    """For operators, and for workers about their own agenda."""

    appointments: list[UUID]
    time_off: list[UUID]


class ReasonOut(BaseModel):
    """The fields beside `code` and `message` depend on the code."""

    code: str
    message: str
    earliest: Annotated[datetime | None, Field(description="For `too_soon`: the earliest start.")] = None
    latest: Annotated[datetime | None, Field(description="For `beyond_horizon`: the latest start.")] = None
    day: Annotated[
        LocalDayOut | None, Field(description="For `outside_hours`, if the caller may see hours.")
    ] = None
    before: Annotated[datetime | None, Field(description="For `off_grid`, likewise.")] = None
    after: Annotated[datetime | None, Field(description="For `off_grid`, likewise.")] = None
    in_the_way: Annotated[InTheWayOut | None, Field(description="For `busy`, `full` and `no_room`.")] = None

    @classmethod
    def of(cls, found: ConflictDetails, text: Text, *, worker_zone: str, time_zone: str | None) -> Self:
        details, blockers = found.details, found.blockers
        times = {
            name: in_zone(moment, time_zone)
            for name in ("earliest", "latest", "before", "after")
            if (moment := getattr(details, name)) is not None
        }
        return cls(
            code=found.conflict,
            message=text(found.conflict, {}),
            day=details.day and LocalDayOut.of(details.day, time_zone=worker_zone),
            in_the_way=blockers
            and InTheWayOut(appointments=list(blockers.appointments), time_off=list(blockers.time_off)),
            **times,
        )


class NoteOut(BaseModel):
    """Clocks at the worker's place skip or repeat this time."""

    code: Literal["clocks_skip", "clocks_repeat"]
    message: str
    moments: Annotated[
        list[datetime],
        Field(description="When clocks show it; for a skipped time, the moment used instead."),
    ]

    @classmethod
    def of(cls, note: ClockNote, text: Text, *, worker_zone: str) -> Self:
        moments = [local_time(worker_zone, moment) for moment in note.moments]
        times = {"time": note.local.strftime("%H:%M"), "shown": moments[0].strftime("%H:%M")}
        return cls(code=note.code, message=text(note.code, {**times}), moments=moments)


class WorkerReasonsOut(BaseModel):
    worker_id: UUID
    time_zone: str
    local_starts_at: Annotated[datetime, Field(description="The requested time in the worker's zone.")]
    offered: bool
    reasons: list[ReasonOut]
    notes: list[NoteOut]

    @classmethod
    def of(cls, found: WorkerExplanation, text: Text, *, starts: Seconds, time_zone: str | None) -> Self:
        zone_name = found.worker.time_zone
        return cls(
            worker_id=found.worker.id,
            time_zone=zone_name,
            local_starts_at=local_time(zone_name, starts),
            offered=not found.conflicts,
            reasons=[
                ReasonOut.of(conflict, text, worker_zone=zone_name, time_zone=time_zone)
                for conflict in found.conflicts
            ],
            notes=[] if found.note is None else [NoteOut.of(found.note, text, worker_zone=zone_name)],
        )


class ExplanationOut(BaseModel):
    """Why a time is offered or not, worker by worker."""

    model_config = examples(EXPLANATION)

    offered: bool
    reasons: Annotated[
        list[ReasonOut], Field(description="Why no worker can be booked, if `workers` is empty.")
    ]
    workers: list[WorkerReasonsOut]
    alternatives: list[SlotOut]

    @classmethod
    def of(cls, found: Explanation, text: Text, *, starts: Seconds, time_zone: str | None) -> Self:
        reason = found.no_worker
        workers = [
            WorkerReasonsOut.of(one, text, starts=starts, time_zone=time_zone) for one in found.workers
        ]
        return cls(
            offered=any(one.offered for one in workers),
            reasons=[] if reason is None else [ReasonOut(code=reason, message=text(reason, {}))],
            workers=workers,
            alternatives=[SlotOut.of(slot, time_zone=time_zone) for slot in found.alternatives],
        )
