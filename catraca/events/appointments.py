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
    service_id: Annotated[UUID, Meta(description="The service.")]
    worker_id: Annotated[UUID, Meta(description="The worker.")]
    worker_user_id: Annotated[UUID | None, Meta(description="The worker's account, if any.")]
    client_id: Annotated[UUID | None, Meta(description="The client; null for a client without an account.")]
    starts_at: Annotated[datetime, Meta(description="Start.")]
    ends_at: Annotated[datetime, Meta(description="End.")]
    time_zone: Annotated[
        str, Meta(description="The time zone in which the time was agreed.", examples=["America/Bahia"])
    ]
    sequence: Annotated[int, Meta(description="Counts the appointment's changes.")]


class AppointmentBooked(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.booked"):
    """The client has this time; no other booking can overlap it."""


class AppointmentRescheduled(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.rescheduled"):
    """The appointment moved to another time, or to another worker."""

    previous_starts_at: Annotated[datetime, Meta(description="The start before the move.")]
    previous_worker_id: Annotated[UUID, Meta(description="The worker before the move.")]
    previous_worker_user_id: Annotated[UUID | None, Meta(description="The previous worker's account.")]
    previous_time_zone: Annotated[
        str, Meta(description="The time zone of the previous agreement.", examples=["America/Bahia"])
    ]


class AppointmentConfirmed(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.confirmed"):
    """The client or the worker confirmed the appointment."""


class AppointmentCanceled(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.canceled"):
    """The appointment was canceled, and its time is free again."""

    canceled_by: Annotated[CanceledBy, Meta(description="The party that canceled.")]


class AppointmentMissed(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.no_show"):
    """The client did not come."""


class AppointmentNear(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.reminder_due"):
    """A reminder of the appointment is due."""


class SlotOffered(AppointmentEvent, frozen=True, kw_only=True, tag="appointment.slot_offered"):
    """Freed time is held for a waitlist entry: book it with `hold_id`, the appointment's id."""

    entry_id: Annotated[UUID, Meta(description="The waitlist entry.")]
    expires_at: Annotated[datetime, Meta(description="When the hold expires; the next entry follows.")]
