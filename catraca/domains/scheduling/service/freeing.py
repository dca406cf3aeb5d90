"""When time becomes free, whoever waits for it is asked, after the commit of whatever freed it.

What became free is a row and a timer, both written by the transaction that frees it: they are there if and
only if it is. Not an event: holds that end have none, and it would come back by way of the bus to the
database it came from.
"""

from datetime import datetime, timedelta

from catraca.domains.people import UserId
from catraca.domains.scheduling.model.agendas import Appointment, ServiceId, SubjectNo
from catraca.domains.scheduling.model.diary import Slot
from catraca.domains.scheduling.model.waiting import EntryStatus, FreedId
from catraca.domains.scheduling.model.zones import at
from catraca.domains.scheduling.store import freeing as store
from catraca.domains.scheduling.store import waiting as waiting_store
from catraca.platform.database import Db, timers
from catraca.platform.database.timers import TimerKind

TIME_FREED = TimerKind("scheduling.time_freed")
WAIT_DUE = TimerKind("scheduling.wait_due")
AT_ONCE = timedelta(0)


async def seat_freed(db: Db, left: Appointment) -> None:
    """Somebody left the seat that this says they had."""
    subject_ids = [left.worker_id, *([] if left.room_id is None else [left.room_id])]
    await _ask(db, await store.note_seat(db, left.service_id, left.starts_at, left.ends_at, subject_ids))


async def slot_found(db: Db, service_id: ServiceId, slot: Slot) -> None:
    """It is free, and somebody waits for it who may not be the first."""
    freed = await store.note_seat(db, service_id, at(slot.starts), at(slot.ends), [slot.worker_id])
    await _ask(db, freed)


async def stretch_freed(db: Db, subject_no: SubjectNo, starts_at: datetime, ends_at: datetime) -> None:
    """A worker or room is there after all."""
    await _ask(db, await store.note_stretch(db, subject_no, starts_at, ends_at))


async def hours_changed(db: Db, subject_no: SubjectNo) -> None:
    """A worker may be there when they were not before."""
    await _ask(db, await store.note_all(db, subject_no))


async def hold_ended(db: Db, held: Appointment, *, declined: bool) -> None:
    """A hold is none any more, and nothing came of it: given back, or its time was over.

    Whoever declines an offer goes on waiting, behind the others; whoever does not answer waits no longer.
    """
    if held.waitlist_entry_id is not None:
        await _offer_became(db, held, "WAITING" if declined else "EXPIRED")
    await seat_freed(db, held)


async def hold_booked(db: Db, booked: Appointment) -> None:
    """If it was an offer, it was waited for."""
    if booked.waitlist_entry_id is not None:
        await _offer_became(db, booked, "BOOKED")


async def leave_lines(db: Db, client_id: UserId) -> None:
    """The client waits for nothing any more."""
    await waiting_store.leave_line(db, await waiting_store.waiting_of(db, client_id))


async def _offer_became(db: Db, held: Appointment, status: EntryStatus) -> None:
    client_id = await waiting_store.offer_became(db, held.id, status)
    if client_id is not None:
        # While they had an offer, they were passed over wherever else they wait.
        entry_ids = await waiting_store.waiting_of(db, client_id)
        await timers.set_timer(db, WAIT_DUE, *entry_ids, due_in=AT_ONCE)


async def _ask(db: Db, freed_ids: list[FreedId]) -> None:
    if freed_ids:
        await timers.set_timer(db, TIME_FREED, *freed_ids, due_in=AT_ONCE)
