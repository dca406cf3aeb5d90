"""Holds end by themselves: when their time is over they count for nothing, and soon are none."""

from collections.abc import Collection
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.model.agendas import Appointment, AppointmentId, Party, SessionId, Status
from catraca.domains.scheduling.service import freeing, telling
from catraca.domains.scheduling.store import agendas as agenda_store
from catraca.domains.scheduling.store import appointments as store
from catraca.domains.scheduling.store import claims
from catraca.platform.database import Db, timers


async def end_lapsed_in(db: Db, session_ids: Collection[SessionId], *, waits: bool) -> None:
    """Holds there that are over make way for whoever comes.

    Whoever joins the session waits for somebody who just ends them; whoever claims its time need not: the
    claim itself waits.
    """
    await _end(db, await store.lapsed_in(db, session_ids, waits=waits))


async def end_lapsed_of(db: Db, client_id: UserId) -> None:
    """And make room for the client's own next one."""
    if session_ids := await store.lapsed_of(db, client_id):
        await end_lapsed_in(db, session_ids, waits=True)


async def give_back(db: Db, hold_id: AppointmentId) -> None:
    """End a hold before its time. What was booked of it stays booked. Safe to repeat."""
    held = await store.read_appointment(db, hold_id)
    if held is None or held.status != "HELD":
        return
    await agenda_store.hold_subjects(db, [held.worker_no])
    if await leave_seat(db, held, "EXPIRED"):
        await freeing.hold_ended(db, held, declined=True)
        await timers.cancel_timer(db, telling.HOLD_DUE, hold_id)
        telling.count(db, "hold_given_back")


async def leave_seat(
    db: Db,
    found: Appointment,
    status: Status,
    *,
    canceled_by: Party | None = None,
    reason: str | None = None,
) -> bool:
    """Whether it still was one, and is none any more. Of two who leave a group, the last frees its time."""
    if found.session_id is not None and found.capacity > 1:
        await claims.hold_session(db, found.session_id)
    return await store.leave(db, found, status, canceled_by=canceled_by, reason=reason)


async def expire_hold(db: Db, hold_id: UUID) -> None:
    """What the hold's timer does: nothing, if it was booked or given back. Safe to repeat."""
    held = await store.read_appointment(db, hold_id)
    if held is not None and held.session_id is not None:
        lapsed = await store.lapsed_in(db, [held.session_id], waits=True)
        await _end(db, [one for one in lapsed if one.id == hold_id])


async def _end(db: Db, lapsed: Collection[Appointment]) -> None:
    for one in lapsed:
        if await store.leave(db, one, "EXPIRED"):
            await freeing.hold_ended(db, one, declined=False)
            await timers.cancel_timer(db, telling.HOLD_DUE, one.id)
            telling.count(db, "hold_expired")
