"""What becomes of an appointment: another time, another status, or none. Each is safe to repeat."""

from uuid import UUID

from catraca.domains.scheduling.errors import (
    AppointmentBegun,
    AppointmentNotStarted,
    AppointmentOver,
    SlotTaken,
)
from catraca.domains.scheduling.model.agendas import (
    MOVABLE,
    MOVES,
    Appointment,
    AppointmentId,
    Party,
    Status,
    SubjectId,
)
from catraca.domains.scheduling.model.spans import Seconds
from catraca.domains.scheduling.model.zones import moment_of
from catraca.domains.scheduling.service import booking, freeing, holding, looking, telling
from catraca.domains.scheduling.service.booking import BookingRules, Wish
from catraca.domains.scheduling.store import agendas as agenda_store
from catraca.domains.scheduling.store import appointments as store
from catraca.domains.scheduling.store import claims
from catraca.events import (
    AppointmentCanceled,
    AppointmentConfirmed,
    AppointmentMissed,
    AppointmentNear,
    AppointmentRescheduled,
)
from catraca.platform.database import Db, timers
from catraca.platform.errors import Busy, NotFound

# An appointment that moves between two looks at it is looked at again, so often.
LOOKS = 3


async def reschedule(
    db: Db,
    appointment_id: AppointmentId,
    *,
    starts: Seconds,
    worker_id: SubjectId | None,
    by: Party,
    rules: BookingRules,
) -> Appointment:
    """The same appointment at another time, or with another worker; it keeps its time if that is refused.

    Its own old time is not in its way. Moved to where it is, it stays as it is. A client moves it before it
    begins.
    """
    (found,) = await hold_agendas(db, appointment_id, also=worker_id)
    _must_be(found, MOVABLE, wanted="BOOKED")
    await _must_be_ahead(db, found, by)
    wish = Wish(service_id=found.service_id, worker_id=worker_id or found.worker_id, starts=starts)
    if moment_of(found.starts_at) == starts and wish.worker_id == found.worker_id:
        return found
    await _vacate(db, found)
    await _sit_again(db, found, wish)
    return await _moved(db, found, rules)


async def swap(
    db: Db, one_id: AppointmentId, other_id: AppointmentId, *, rules: BookingRules
) -> tuple[Appointment, Appointment]:
    """Each at the other's time, with the other's worker; or both stay as they are."""
    one, other = await hold_agendas(db, one_id, other_id)
    for found in (one, other):
        _must_be(found, MOVABLE, wanted="BOOKED")
    if one.session_id == other.session_id:  # of one group: each is where the other is
        return one, other
    for found in (one, other):
        await _vacate(db, found)
    for found, place in ((one, other), (other, one)):
        wish = Wish(service_id=found.service_id, worker_id=place.worker_id, starts=moment_of(place.starts_at))
        await _sit_again(db, found, wish)
    return await _moved(db, one, rules), await _moved(db, other, rules)


async def cancel(db: Db, appointment_id: AppointmentId, *, by: Party, reason: str | None) -> Appointment:
    """Free its time; canceled again it stays as it was. A client cancels before it begins."""
    (found,) = await hold_agendas(db, appointment_id)
    if found.status == "CANCELED":
        return found
    _must_lead_to(found, "CANCELED")
    await _must_be_ahead(db, found, by)
    is_done = await holding.leave_seat(db, found, "CANCELED", canceled_by=by, reason=reason)
    canceled = await _changed(db, found, is_done)
    event = AppointmentCanceled(**telling.said_of(canceled), canceled_by=by)
    await telling.tell(db, event, outcome="canceled")
    await freeing.seat_freed(db, found)
    await timers.cancel_timer(db, telling.REMINDER_DUE, appointment_id)
    return canceled


async def confirm(db: Db, appointment_id: AppointmentId) -> Appointment:
    """It will take place; confirmed again it stays so."""
    (found,) = await hold_agendas(db, appointment_id)
    if found.status == "CONFIRMED":
        return found
    _must_lead_to(found, "CONFIRMED")
    is_done = await store.become(db, appointment_id, "CONFIRMED", was=[found.status])
    confirmed = await _changed(db, found, is_done)
    await telling.tell(db, AppointmentConfirmed(**telling.said_of(confirmed)), outcome="confirmed")
    return confirmed


async def miss(db: Db, appointment_id: AppointmentId) -> Appointment:
    """The client did not come, which can be said once it has begun; said again it stays so."""
    (found,) = await hold_agendas(db, appointment_id)
    if found.status == "NO_SHOW":
        return found
    _must_lead_to(found, "NO_SHOW")
    if not await store.has_begun(db, appointment_id):
        raise AppointmentNotStarted(starts_at=found.starts_at)
    is_done = await store.become(db, appointment_id, "NO_SHOW", was=[found.status])
    missed = await _changed(db, found, is_done)
    await telling.tell(db, AppointmentMissed(**telling.said_of(missed)), outcome="no_show")
    return missed


async def remind(db: Db, appointment_id: UUID) -> None:
    """What the reminder's timer does: nothing, if it was canceled or has begun."""
    found = await store.read_appointment(db, appointment_id)
    if found is None or found.status not in MOVABLE or await store.has_begun(db, found.id):
        return
    await telling.tell(db, AppointmentNear(**telling.said_of(found)), outcome="reminded")


async def hold_agendas(
    db: Db, *appointment_ids: AppointmentId, also: SubjectId | None = None
) -> list[Appointment]:
    """The appointments as they stay until we change them: whose time they take, or may take, we alone write.

    That is held all at once, in one order; so one that moved meanwhile is looked at again, holding nothing.
    """
    found = [await _read(db, one) for one in appointment_ids]
    await agenda_store.begin_to_hold(db)
    for _ in range(LOOKS):
        nos = {one.worker_no for one in found}
        for one in found:
            concerned = also or one.worker_id
            nos.update(await agenda_store.subjects_of_service(db, one.service_id, concerned))
        await agenda_store.hold_subjects(db, nos)
        before, found = found, [await _read(db, one) for one in appointment_ids]
        if [one.worker_no for one in found] == [one.worker_no for one in before]:
            return found
        await agenda_store.let_go(db)
    raise Busy


async def _vacate(db: Db, found: Appointment) -> None:
    assert found.session_id is not None
    await claims.hold_session(db, found.session_id)
    await claims.vacate(db, found.session_id, leaving=found.id)


async def _sit_again(db: Db, found: Appointment, wish: Wish) -> None:
    diary = await booking.read_diary(db, wish)
    agenda = booking.choose(diary, wish)
    session = agenda.sessions.get(wish.starts)
    if session is not None:
        await holding.end_lapsed_in(db, {session.id}, waits=True)
        session_id, is_there = session.id, True
    else:
        new = await booking.open_session(db, diary, agenda, wish.starts)
        session_id, is_there = new.id, await claims.claim_session(db, new)
    zone = agenda.worker.time_zone
    if not is_there or not await store.move(db, found.id, session_id, time_zone=zone, starts=wish.starts):
        raise SlotTaken(alternatives=looking.shown(looking.alternatives_to(diary, wish.starts)))


async def _moved(db: Db, before: Appointment, rules: BookingRules) -> Appointment:
    now = await _read(db, before.id)
    event = AppointmentRescheduled(
        **telling.said_of(now),
        previous_starts_at=before.starts_at,
        previous_worker_id=before.worker_id,
        previous_worker_user_id=before.worker_user_id,
        previous_time_zone=before.time_zone,
    )
    await telling.tell(db, event, outcome="rescheduled")
    await freeing.seat_freed(db, before)
    await telling.remind_in_time(db, now, rules.reminder)
    return now


async def _changed(db: Db, found: Appointment, is_done: bool) -> Appointment:
    if not is_done:  # somebody changed it who did not hold its agenda
        raise Busy
    return await _read(db, found.id)


async def _read(db: Db, appointment_id: AppointmentId) -> Appointment:
    found = await store.read_appointment(db, appointment_id)
    if found is None:
        raise NotFound
    return found


async def _must_be_ahead(db: Db, found: Appointment, by: Party) -> None:
    """Whoever did not come cannot undo it; whoever waited for them decides."""
    if by == "client" and await store.has_begun(db, found.id):
        raise AppointmentBegun(starts_at=found.starts_at)


def _must_be(found: Appointment, statuses: frozenset[Status], *, wanted: Status) -> None:
    if found.status not in statuses:
        raise AppointmentOver(appointment_status=found.status, wanted=wanted)


def _must_lead_to(found: Appointment, status: Status) -> None:
    if status not in MOVES[found.status]:
        raise AppointmentOver(appointment_status=found.status, wanted=status)
