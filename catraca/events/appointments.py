"""Events of appointments: booked, moved, confirmed, canceled, missed, near; and of offered times."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta

from catraca.platform.event import Event

CanceledBy = Literal["client", "worker", "operator"]


class AppointmentEvent(Event, frozen=True, kw_only=True):
    """The base of all events of an appointment, with its present data."""

    exchange = "appointments.events"
    about = "appointment_id"

    appointment_id: UUID
    service_id: Annotated[UUID, Meta(description="What for.")]
    worker_id: Annotated[UUID, Meta(description="With whom.")]
    worker_user_id: Annotated[UUID | None, Meta(description="The worker's account, if they have one.")]
    client_id: Annotated[UUID | None, Meta(description="Whose; null for somebody without an account.")]
    starts_at: Annotated[datetime, Meta(description="From when.")]
    ends_at: Annotated[datetime, Meta(description="Until when.")]
    time_zone: Annotated[
        str, Meta(description="Whose clocks it was agreed on by.", examples=["America/Bahia"])
    ]
    sequence: Annotated[int, Meta(description="Counts the appointment's changes.")]


class AppointmentBooked(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.booked"):
    """The client has this time; no other booking can overlap it."""


class AppointmentRescheduled(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.rescheduled"):
    """It moved to another time, or to another worker."""

    previous_starts_at: Annotated[datetime, Meta(description="From when it was before.")]
    previous_worker_id: Annotated[UUID, Meta(description="With whom it was before.")]
    previous_worker_user_id: Annotated[UUID | None, Meta(description="That worker's account.")]
    previous_time_zone: Annotated[
        str, Meta(description="Whose clocks that was agreed on by.", examples=["America/Bahia"])
    ]


class AppointmentConfirmed(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.confirmed"):
    """The client or the worker confirmed the appointment."""


class AppointmentCanceled(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.canceled"):
    """Its time is free again."""

    canceled_by: Annotated[CanceledBy, Meta(description="Who did.")]


class AppointmentMissed(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.no_show"):
    """The client did not come."""


class AppointmentNear(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.reminder_due"):
    """It is time to remind of it."""


class SlotOffered(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.slot_offered"):
    """Freed time is held for a waitlist entry: book it with `hold_id`, the appointment's id."""

    entry_id: Annotated[UUID, Meta(description="The place in line.")]
    expires_at: Annotated[datetime, Meta(description="Then somebody else is offered it.")]
