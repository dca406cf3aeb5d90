"""Bodies and answers of the routes for appointments."""

from collections.abc import Sequence
from typing import Annotated, Self
from uuid import UUID

from pydantic import BaseModel, Field

from catraca.domains.scheduling.appointments.model import Appointment
from catraca.domains.scheduling.appointments.schemas import (
    BOOKED,
    OTHER_BOOKED,
    WALK_IN,
    AppointmentOut,
    ClientTimeIn,
)
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.shared.schemas import (
    HOLD_ID,
    OTHER_APPOINTMENT_ID,
    REQUESTED_TIME,
    TEN,
    WholeMoment,
)
from catraca.platform.forms import Body, Next, Reason, examples, split_page


class AppointmentIn(ClientTimeIn):
    model_config = examples(
        REQUESTED_TIME, {**REQUESTED_TIME, "hold_id": HOLD_ID}, {**REQUESTED_TIME, "client": WALK_IN}
    )

    hold_id: Annotated[UUID | None, Field(description="The client's hold on this time.")] = None


class RescheduleIn(Body):
    model_config = examples({"starts_at": TEN})

    starts_at: WholeMoment
    worker_id: Annotated[UUID | None, Field(description="Default: the same worker.")] = None


class SwapIn(Body):
    model_config = examples({"appointment_id": OTHER_APPOINTMENT_ID})

    appointment_id: Annotated[UUID, Field(description="The other appointment.")]


class CancelAppointmentIn(Body):
    model_config = examples({"reason": "Viagem"})

    reason: Reason | None = None


class SwappedOut(BaseModel):
    model_config = examples({"appointments": [BOOKED, OTHER_BOOKED]})

    appointments: list[AppointmentOut]


class AppointmentPage(BaseModel):
    model_config = examples({"appointments": [BOOKED], "next": None})

    appointments: list[AppointmentOut]
    next: Next[str]

    @classmethod
    def of(cls, found: Sequence[Appointment], *, limit: int) -> Self:
        page, after = split_page(
            found, limit=limit, cursor=lambda one: f"{to_seconds(one.starts_at)}.{one.id}"
        )
        return cls(appointments=[AppointmentOut.model_validate(one) for one in page], next=after)
