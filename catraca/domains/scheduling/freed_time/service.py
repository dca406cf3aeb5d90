"""Records freed time and answered offers for the waitlist.

A row and a timer, both in the transaction that frees the time. Not an event: expired holds have none, and
the bus would only bring it back to the database it came from.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final, Literal

from catraca.domains.scheduling.freed_time import store
from catraca.domains.scheduling.freed_time.store import FreedTimeId
from catraca.domains.scheduling.shared.model import AppointmentId, ServiceId, SubjectId, SubjectNo
from catraca.platform.database import Db, timers
from catraca.platform.database.timers import TimerKind

TIME_FREED = TimerKind("scheduling.time_freed")
WAIT_DUE = TimerKind("scheduling.wait_due")
AT_ONCE: Final = timedelta(0)
OfferOutcome = Literal["BOOKED", "WAITING", "EXPIRED"]


async def record_freed_seat(
    db: Db,
    service_id: ServiceId,
    subject_ids: Collection[SubjectId],
    *,
    starts_at: datetime,
    ends_at: datetime,
) -> None:
    """A seat of a service became free, with its buffers, for its worker and room."""
    await _set_timers(db, await store.insert_freed_seat(db, service_id, subject_ids, starts_at, ends_at))


async def record_freed_time(db: Db, subject_no: SubjectNo, *, starts_at: datetime, ends_at: datetime) -> None:
    """Time off ended."""
    await _set_timers(db, await store.insert_freed_time(db, subject_no, starts_at, ends_at))


async def record_changed_hours(db: Db, subject_no: SubjectNo) -> None:
    """A worker's hours or services changed: any time from now on may be free."""
    await _set_timers(db, await store.insert_all_time(db, subject_no))


async def _set_timers(db: Db, freed_ids: list[FreedTimeId]) -> None:
    if freed_ids:
        await timers.set_timer(db, TIME_FREED, *freed_ids, due_in=AT_ONCE)


async def close_offer(db: Db, hold_id: AppointmentId, outcome: OfferOutcome) -> None:
    """Close the waitlist offer that is this hold.

    A client who declines stays on the waitlist, at the end. A client who does not answer leaves the waitlist:
    otherwise each freed time would wait for clients who are gone.
    """
    client_id = await store.close_offer(db, hold_id, outcome)
    if client_id is not None:
        # A client with an offer was skipped in all lines.
        entry_ids = await store.waiting_entries(db, client_id)
        await timers.set_timer(db, WAIT_DUE, *entry_ids, due_in=AT_ONCE)
