"""Bodies and answers of the routes for series."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.appointments.schemas import AppointmentOut, ClientTimeIn
from catraca.domains.scheduling.availability.schemas import SlotOut
from catraca.domains.scheduling.calendar_math.zones import to_datetime
from catraca.domains.scheduling.series.model import Frequency, Recurrence
from catraca.domains.scheduling.series.service import MAX_WITH_ALTERNATIVES, FailedOccurrence, Series

MAX_COUNT = 52


class SeriesIn(ClientTimeIn):
    """`starts_at` is the first appointment; the others are at the same local time of the worker."""

    every: Annotated[
        Frequency,
        Field(description="`month`: on the same day of the month, or on the last day of a shorter month."),
    ]
    count: Annotated[int, Field(ge=2, le=MAX_COUNT, description="How many appointments, with the first.")]
    on_conflict: Annotated[
        Literal["refuse", "skip"],
        Field(description="If a time cannot be booked: book nothing, or book the others."),
    ] = "refuse"

    def to_recurrence(self) -> Recurrence:
        return Recurrence(every=self.every, count=self.count)


class FailedOut(BaseModel):
    starts_at: datetime
    code: Annotated[str, Field(description="The code with which a booking of this time is refused.")]
    faults: list[str]
    alternatives: Annotated[
        list[SlotOut],
        Field(
            description="The nearest free slots of the worker. Only the first"
            f" {MAX_WITH_ALTERNATIVES} times that failed have them."
        ),
    ]

    @classmethod
    def of(cls, failed: FailedOccurrence) -> Self:
        return cls(
            starts_at=to_datetime(failed.starts),
            code=failed.code,
            faults=list(failed.conflicts),
            alternatives=[SlotOut.of(slot) for slot in failed.alternatives],
        )


class SeriesOut(BaseModel):
    series_id: UUID
    appointments: list[AppointmentOut]

    @classmethod
    def of_appointments(cls, series_id: UUID, appointments: Sequence[Appointment]) -> Self:
        return cls(
            series_id=series_id, appointments=[AppointmentOut.model_validate(one) for one in appointments]
        )


class SeriesBookedOut(SeriesOut):
    failed: Annotated[
        list[FailedOut], Field(description="The times that were not booked, with `on_conflict: skip`.")
    ]

    @classmethod
    def of(cls, series: Series) -> Self:
        return cls(
            series_id=series.id,
            appointments=[AppointmentOut.model_validate(one) for one in series.appointments],
            failed=[FailedOut.of(one) for one in series.failed],
        )
