"""One claim, one winner: booking a time, and holding one for a while."""

from dataclasses import dataclass
from datetime import timedelta

from catraca.domains.scheduling.errors import (
    HoldContradicted,
    ServiceRetired,
    SlotNotOffered,
    SlotTaken,
    TooManyHolds,
)
from catraca.domains.scheduling.model.agendas import (
    MOVABLE,
    Appointment,
    AppointmentId,
    Client,
    ServiceId,
    SessionId,
    SubjectId,
)
from catraca.domains.scheduling.model.diary import TAKEN, Agenda, Diary, Fault, fairest
from catraca.domains.scheduling.model.spans import Seconds
from catraca.domains.scheduling.model.zones import moment_of
from catraca.domains.scheduling.service import freeing, holding, looking, telling
from catraca.domains.scheduling.store import agendas as agenda_store
from catraca.domains.scheduling.store import appointments as store
from catraca.domains.scheduling.store.appointments import NewSeat
from catraca.domains.scheduling.store.choosing import read_around
from catraca.domains.scheduling.store.claims import NewSession
from catraca.events import AppointmentBooked
from catraca.platform.database import Db, timers
from catraca.platform.errors import NotFound
from catraca.platform.ids import new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A time somebody would like; without a worker, anybody's who does it."""

    service_id: ServiceId
    worker_id: SubjectId | None
    starts: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class BookingRules:
    """What the role sets."""

    reminder: timedelta
    hold_ttl: timedelta
    most_holds: int


async def book(
    db: Db, wish: Wish, client: Client, *, rules: BookingRules, hold_id: AppointmentId | None = None
) -> Appointment:
    """An appointment for the client, or a refusal with the nearest alternatives. Of many at once one gets it.

    With a hold of theirs that is not over, it is sure to be theirs; one that is over helps no more than none.
    Booked with the same hold again, it is the same appointment.
    """
    if hold_id is not None:
        await _check_hold(db, wish, client, hold_id)
        is_new = await store.book_held(db, hold_id)
        booked = await _read(db, hold_id)
        if is_new:
            await _told(db, booked, rules)
            await freeing.hold_booked(db, booked)
            await timers.cancel_timer(db, telling.HOLD_DUE, hold_id)
        if booked.status in MOVABLE:
            return booked
    booked = await take_seat(db, wish, client)
    await _told(db, booked, rules)
    return booked


async def _told(db: Db, booked: Appointment, rules: BookingRules) -> None:
    await telling.tell(db, AppointmentBooked(**telling.said_of(booked)), outcome="booked")
    await telling.remind_in_time(db, booked, rules.reminder)


async def hold(db: Db, wish: Wish, client: Client, *, rules: BookingRules) -> Appointment:
    """Keep a time for the client until it expires by itself; nobody else can book it meanwhile.

    Whoever holds that time alone already has that hold, and no second one.
    """
    assert client.id is not None, "holds are counted, and so need an account"
    await store.hold_client(db, client.id)
    if (held := await store.held_by(db, client.id, wish.service_id, wish.worker_id, wish.starts)) is not None:
        return held
    held = await take_seat(db, wish, client, hold=rules.hold_ttl, most_holds=rules.most_holds)
    assert held.expires_at is not None
    await timers.set_timer(db, telling.HOLD_DUE, held.id, due_at=held.expires_at)
    telling.count(db, "held")
    return held


async def _check_hold(db: Db, wish: Wish, client: Client, hold_id: AppointmentId) -> None:
    """The client's own, for this very time."""
    held = await store.read_appointment(db, hold_id)
    if held is None or held.client.id != client.id:
        raise NotFound
    wrong = {
        "service_id": held.service_id != wish.service_id,
        "worker_id": wish.worker_id not in (None, held.worker_id),
        "starts_at": moment_of(held.starts_at) != wish.starts,
    }
    if any(wrong.values()):
        raise HoldContradicted(fields=[name for name, is_wrong in wrong.items() if is_wrong])


async def take_seat(
    db: Db, wish: Wish, client: Client, *, hold: timedelta | None = None, most_holds: int = 0
) -> Appointment:
    """A seat at that time, with the fairest of the workers who are free."""
    await agenda_store.hold_for_service(db, wish.service_id, wish.worker_id)
    if hold is not None and client.id is not None:
        await holding.end_lapsed_of(db, client.id)
    diary = await read_diary(db, wish)
    agenda = choose(diary, wish)
    seat = NewSeat(
        id=AppointmentId(new_id()),
        client=client,
        starts=wish.starts,
        time_zone=agenda.worker.time_zone,
        hold=hold,
        most_holds=most_holds,
    )
    seated = await _sit(db, diary, agenda, seat)
    if seated is not None:
        return seated
    # With the agenda held, time can only have been taken past us; of holds, the client may have too many.
    if hold is not None and await store.count_holds(db, client.id) >= most_holds:
        raise TooManyHolds(limit=most_holds)
    raise SlotTaken(alternatives=looking.shown(looking.alternatives_to(diary, wish.starts)))


async def _read(db: Db, appointment_id: AppointmentId) -> Appointment:
    found = await store.read_appointment(db, appointment_id)
    assert found is not None
    return found


async def read_diary(db: Db, wish: Wish) -> Diary:
    within = looking.around(wish.starts)
    found = await read_around(db, wish.service_id, wish.worker_id, within, before=wish.starts)
    if found is None:
        raise NotFound
    terms = found.offering.service.terms
    if terms.retired:
        raise ServiceRetired
    worked, touched = looking.stretches(terms, within)
    return looking.diary_of(found, worked, await looking.sessions_in(db, found.offering, touched))


def choose(diary: Diary, wish: Wish) -> Agenda:
    """Whoever takes it; a refusal says whether others were faster or it was never offered."""
    faults = {agenda.worker.id: diary.faults(agenda, wish.starts) for agenda in diary.agendas}
    free = [agenda for agenda in diary.agendas if not faults[agenda.worker.id]]
    if free:
        return fairest(free)
    alternatives = looking.shown(looking.alternatives_to(diary, wish.starts))
    if any(TAKEN.issuperset(found) for found in faults.values()):
        raise SlotTaken(alternatives=alternatives)
    reasons: list[Fault] = sorted({fault for found in faults.values() for fault in found})
    raise SlotNotOffered(faults=reasons or ["no_worker"], alternatives=alternatives)


async def _sit(db: Db, diary: Diary, agenda: Agenda, seat: NewSeat) -> Appointment | None:
    session = agenda.sessions.get(seat.starts)
    if session is not None:
        await holding.end_lapsed_in(db, {session.id}, waits=True)
        return await store.seat_in_session(db, session.id, seat)
    return await store.seat_in_new_session(db, await open_session(db, diary, agenda, seat.starts), seat)


async def open_session(db: Db, diary: Diary, agenda: Agenda, starts: Seconds) -> NewSession:
    """What must be claimed for it; holds that are over make way."""
    room_no = diary.free_room(starts)
    claim = diary.claim(starts)
    lapsed = diary.lapsed_in({agenda.worker.no, *([] if room_no is None else [room_no])}, claim)
    if lapsed:
        await holding.end_lapsed_in(db, lapsed, waits=False)
    return NewSession(
        id=SessionId(new_id()),
        worker_no=agenda.worker.no,
        room_no=room_no,
        service_id=diary.service.id,
        capacity=diary.service.terms.capacity,
        claim=claim,
        begins=starts,
        finishes=starts + diary.duration,
    )
