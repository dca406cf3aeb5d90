"""What the routes of series take and give."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.scheduling.model.agendas import Appointment
from catraca.domains.scheduling.model.series import Every
from catraca.domains.scheduling.model.zones import at
from catraca.domains.scheduling.schemas.availability import SlotOut
from catraca.domains.scheduling.schemas.booking import AppointmentOut, WishIn
from catraca.domains.scheduling.service.series import Failed, Rhythm, Series

MOST = 52


class SeriesIn(WishIn):
    """`starts_at` is the first; the others are at the same time on the worker's clocks."""

    every: Annotated[
        Every, Field(description="`month`: on the same day of each, or on the last of one that is shorter.")
    ]
    count: Annotated[int, Field(ge=2, le=MOST, description="How many in all.")]
    on_conflict: Annotated[
        Literal["refuse", "skip"],
        Field(description="If one cannot be had: book nothing, or book the others."),
    ] = "refuse"

    def to_rhythm(self) -> Rhythm:
        return Rhythm(every=self.every, count=self.count)


class FailedOut(BaseModel):
    starts_at: datetime
    code: Annotated[str, Field(description="As a booking of it alone would be refused with.")]
    faults: list[str]
    alternatives: list[SlotOut]

    @classmethod
    def of(cls, failed: Failed) -> Self:
        return cls(
            starts_at=at(failed.starts),
            code=failed.code,
            faults=list(failed.faults),
            alternatives=[SlotOut.of(slot) for slot in failed.alternatives],
        )


class SeriesOut(BaseModel):
    series_id: UUID
    appointments: list[AppointmentOut]

    @classmethod
    def of_those(cls, series_id: UUID, appointments: Sequence[Appointment]) -> Self:
        return cls(series_id=series_id, appointments=[AppointmentOut.of(one) for one in appointments])


class SeriesBookedOut(SeriesOut):
    failed: Annotated[list[FailedOut], Field(description="What was left out, with `on_conflict: skip`.")]

    @classmethod
    def of(cls, series: Series) -> Self:
        return cls(
            series_id=series.id,
            appointments=[AppointmentOut.of(one) for one in series.appointments],
            failed=[FailedOut.of(one) for one in series.failed],
        )
