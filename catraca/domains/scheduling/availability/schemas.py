"""Answers with slots."""

from datetime import datetime
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field
from pydantic.config import JsonDict

from catraca.domains.scheduling.availability.model import Slot
from catraca.domains.scheduling.availability.service import SlotsFound
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
