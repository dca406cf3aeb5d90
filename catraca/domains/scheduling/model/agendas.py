"""Workers, rooms, services and appointments as values, and the moves an appointment can make."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NewType
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.model.days_off import Holidays

SubjectId = NewType("SubjectId", UUID)
# Short, for the index that keeps claims apart; never shown.
SubjectNo = NewType("SubjectNo", int)
ServiceId = NewType("ServiceId", UUID)
SessionId = NewType("SessionId", UUID)
AppointmentId = NewType("AppointmentId", UUID)

Status = Literal["HELD", "BOOKED", "CONFIRMED", "NO_SHOW", "CANCELED", "EXPIRED"]
Party = Literal["client", "worker", "operator"]

# What leads to which. Moving to another time changes no status.
MOVES: Final[dict[Status, frozenset[Status]]] = {
    "HELD": frozenset({"BOOKED", "EXPIRED"}),
    "BOOKED": frozenset({"CONFIRMED", "NO_SHOW", "CANCELED"}),
    "CONFIRMED": frozenset({"NO_SHOW", "CANCELED"}),
    "NO_SHOW": frozenset(),
    "CANCELED": frozenset(),
    "EXPIRED": frozenset(),
}
# Held and not booked: those are no appointments yet, or never became any.
ONLY_HELD: Final[frozenset[Status]] = frozenset({"HELD", "EXPIRED"})
MOVABLE: Final[frozenset[Status]] = frozenset({"BOOKED", "CONFIRMED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    id: SubjectId
    no: SubjectNo
    name: str
    time_zone: str
    user_id: UserId | None = None
    holidays: Holidays | None = None
    retired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    id: SubjectId
    no: SubjectNo
    name: str
    retired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What an operator says of a service."""

    name: str
    duration_minutes: int
    buffer_before_minutes: int = 0
    buffer_after_minutes: int = 0
    min_notice_minutes: int = 0
    horizon_days: int = 60
    slot_step_minutes: int
    capacity: int = 1
    retired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    id: ServiceId
    terms: Terms


@dataclass(frozen=True, slots=True)
class Names:
    """What services, and workers and rooms, are called, by their ids."""

    services: Mapping[UUID, str]
    subjects: Mapping[UUID, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Whom an appointment is for: somebody with an account here, or a name and how to reach them."""

    id: UserId | None = None
    name: str | None = None
    contact: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appointment:
    id: AppointmentId
    service_id: ServiceId
    worker_id: SubjectId
    worker_no: SubjectNo
    worker_user_id: UserId | None
    client: Client
    status: Status
    session_id: SessionId | None
    capacity: int
    starts_at: datetime
    ends_at: datetime
    local_starts_at: datetime
    time_zone: str
    tzdata_version: str
    expires_at: datetime | None
    sequence: int
    canceled_by: Party | None
    cancel_reason: str | None
    created_at: datetime
    changed_at: datetime
    room_id: SubjectId | None = None
    # Those booked together with it have the same.
    series_id: UUID | None = None
    # For whose place in line it was held.
    waitlist_entry_id: UUID | None = None
