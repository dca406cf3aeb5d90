"""Ids, names, and the rules that the API role sets for bookings."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import NewType
from uuid import UUID

# A subject has an agenda: a worker or a room.
SubjectId = NewType("SubjectId", UUID)
# A subject's short number, for the index on claims. Internal: never in an answer.
SubjectNo = NewType("SubjectNo", int)
ServiceId = NewType("ServiceId", UUID)
# A session is the claim on a worker's time in which clients have seats.
SessionId = NewType("SessionId", UUID)
# Holds have such an id, too: a hold that is booked becomes the appointment of the same id.
AppointmentId = NewType("AppointmentId", UUID)
SeriesId = NewType("SeriesId", UUID)
EntryId = NewType("EntryId", UUID)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """How many upcoming appointments and holds a client may make without an operator."""

    upcoming: int
    # Of them in series.
    in_series: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingRules:
    # How long before an appointment its reminder is due.
    reminder: timedelta
    hold_ttl: timedelta
    # Per client.
    max_holds: int
    limits: ClientLimits


def queue_key(service_id: UUID | None, worker_id: UUID | None) -> str:
    """The queue of a worker's agenda; without a worker, of bookings with any worker of a service."""
    return f"lock:service:{service_id}" if worker_id is None else f"lock:worker:{worker_id}"


@dataclass(frozen=True, slots=True)
class Names:
    """Names of services, and of workers and rooms, by id."""

    services: Mapping[UUID, str]
    subjects: Mapping[UUID, str]
