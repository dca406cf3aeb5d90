"""Places in line for a time that is taken, and what is offered to whom."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NewType
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.model.agendas import AppointmentId, ServiceId, SubjectId, SubjectNo
from catraca.domains.scheduling.model.spans import Seconds, Span

EntryId = NewType("EntryId", UUID)
FreedId = NewType("FreedId", UUID)
# An offer that is given back leads back to WAITING, at the end of the line; one that lapses, to EXPIRED:
# whoever does not answer would keep each freed time from those who do.
EntryStatus = Literal["WAITING", "OFFERED", "BOOKED", "EXPIRED", "CANCELED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The time that is kept for whoever waited, and until when."""

    hold_id: AppointmentId
    worker_id: SubjectId
    starts_at: datetime
    ends_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    id: EntryId
    service_id: ServiceId
    worker_id: SubjectId | None
    client_id: UserId
    # When it may begin; the end is not included.
    starts_from: datetime
    starts_before: datetime
    status: EntryStatus
    # How many stand in line, this one included, up to here; None when it does not stand there.
    position: int | None
    offer: Offer | None
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """A stretch of a subject's time that became free while somebody waited."""

    id: FreedId
    subject_no: SubjectNo
    # Whose it is, if it is a worker's and not a room's.
    worker_id: SubjectId | None
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The first in line for some slots, and the first of those that they want."""

    queued_at: datetime
    entry_id: EntryId
    client_id: UserId
    service_id: ServiceId
    worker_id: SubjectId
    starts: Seconds
