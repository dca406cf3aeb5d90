"""Appointments and holds, their states, and what a booking claims."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.calendar_math.spans import Seconds, Span
from catraca.domains.scheduling.shared.model import (
    AppointmentId,
    ClientLimits,
    SeriesId,
    ServiceId,
    SessionId,
    SubjectId,
    SubjectNo,
)

Status = Literal["HELD", "BOOKED", "CONFIRMED", "NO_SHOW", "CANCELED", "EXPIRED"]
Party = Literal["client", "worker", "operator"]

# A reschedule changes no status.
MOVES: Final[dict[Status, frozenset[Status]]] = {
    "HELD": frozenset({"BOOKED", "EXPIRED"}),
    "BOOKED": frozenset({"CONFIRMED", "NO_SHOW", "CANCELED"}),
    "CONFIRMED": frozenset({"NO_SHOW", "CANCELED"}),
    "NO_SHOW": frozenset(),
    "CANCELED": frozenset(),
    "EXPIRED": frozenset(),
}
# Holds: not appointments yet, or never.
HOLD_STATUSES: Final[frozenset[Status]] = frozenset({"HELD", "EXPIRED"})
# Appointments that will take place, and so can be moved.
UPCOMING_STATUSES: Final[frozenset[Status]] = frozenset({"BOOKED", "CONFIRMED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An account, or a name and contact for a client without one."""

    id: UserId | None = None
    name: str | None = None
    contact: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appointment:
    """An appointment or a hold."""

    id: AppointmentId
    service_id: ServiceId
    worker_id: SubjectId
    worker_no: SubjectNo
    worker_user_id: UserId | None
    client: Client
    status: Status
    # None once the seat is released.
    session_id: SessionId | None
    capacity: int
    starts_at: datetime
    ends_at: datetime
    # The local time agreed on, and the rules of time by which it was computed.
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
    series_id: SeriesId | None = None
    # Set if the hold is an offer to this waitlist entry.
    waitlist_entry_id: UUID | None = None
    # By the database's clock when it was read.
    has_begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingRequest:
    """A time that a client wants; without a worker: of any worker who does the service."""

    service_id: ServiceId
    worker_id: SubjectId | None
    starts: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A claim on a worker's time, and on a room's, for clients of one service."""

    id: SessionId
    worker_no: SubjectNo
    room_no: SubjectNo | None
    service_id: ServiceId
    capacity: int
    claim: Span
    begins: Seconds
    finishes: Seconds

    @property
    def subject_nos(self) -> set[SubjectNo]:
        return {self.worker_no} if self.room_no is None else {self.worker_no, self.room_no}


@dataclass(frozen=True, slots=True)
class HoldLimits:
    ttl: timedelta
    max_holds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSeat:
    """A client's seat in a session: booked, or held if it has `hold`."""

    id: AppointmentId
    client: Client
    starts: Seconds
    time_zone: str
    # None: made by an operator or a service.
    limits: ClientLimits | None
    hold: HoldLimits | None = None
    series_id: SeriesId | None = None
