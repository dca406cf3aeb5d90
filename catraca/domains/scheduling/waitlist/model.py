"""Waitlist entries and offers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from catraca.domains.people import UserId
from catraca.domains.scheduling.calendar_math.spans import Seconds
from catraca.domains.scheduling.shared.model import AppointmentId, EntryId, ServiceId, SubjectId

# A declined offer leads back to WAITING, at the end of the line; an expired one to EXPIRED.
EntryStatus = Literal["WAITING", "OFFERED", "BOOKED", "EXPIRED", "CANCELED"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A hold for the client of an entry."""

    hold_id: AppointmentId
    worker_id: SubjectId
    starts_at: datetime
    ends_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitlistEntry:
    id: EntryId
    service_id: ServiceId
    # None: any worker.
    worker_id: SubjectId | None
    client_id: UserId
    # The range of starts, end excluded.
    starts_from: datetime
    starts_before: datetime
    status: EntryStatus
    # From 1, among entries that want some of the same times; None if the entry does not wait.
    position: int | None
    # For a BOOKED entry: what was booked.
    offer: Offer | None
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The entry that is first in line for some slots, and the first slot that it wants."""

    queued_at: datetime
    entry_id: EntryId
    client_id: UserId
    service_id: ServiceId
    worker_id: SubjectId
    starts: Seconds
