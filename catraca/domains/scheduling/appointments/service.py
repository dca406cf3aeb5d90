"""Seats, locks, access and events of appointments, as all features above use them."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from prometheus_client import Counter

from catraca.domains import people
from catraca.domains.people import UserId
from catraca.domains.scheduling.agendas.service import record_audit
from catraca.domains.scheduling.appointments import store
from catraca.domains.scheduling.appointments.model import (
    HOLD_STATUSES,
    Appointment,
    BookingRequest,
    Client,
    HoldLimits,
    NewSeat,
    NewSession,
    Party,
    Status,
)
from catraca.domains.scheduling.availability.model import (
    TAKEN,
    Agenda,
    Conflict,
    ServiceSchedule,
    least_booked_first,
)
from catraca.domains.scheduling.availability.service import alternatives_to, around, slots_as_data
from catraca.domains.scheduling.availability.store import ScheduleQuestion, only, read_schedules
from catraca.domains.scheduling.calendar_math.spans import Seconds, Span
from catraca.domains.scheduling.errors import (
    ClientBusy,
    ServiceRetired,
    SlotNotOffered,
    SlotTaken,
    TooManyAppointments,
    TooManyHolds,
    TooManyInSeries,
)
from catraca.domains.scheduling.freed_time import service as freed_time
from catraca.domains.scheduling.shared.model import (
    AppointmentId,
    ClientLimits,
    SeriesId,
    SessionId,
    SubjectId,
)
from catraca.events.appointments import AppointmentEvent
from catraca.platform.auth import Principal
from catraca.platform.database import Db, outbox, timers
from catraca.platform.database.timers import TimerKind
from catraca.platform.errors import Busy, NotFound, Refusal
from catraca.platform.ids import new_id

REMINDER_DUE = TimerKind("scheduling.reminder_due")
HOLD_DUE = TimerKind("scheduling.hold_due")
# How often the locks are taken again when an appointment moves to another worker meanwhile.
LOCK_ATTEMPTS: Final = 3
OUTCOMES = Counter(
    "catraca_appointments_total", "Changes of appointments and holds, by outcome.", ["outcome"]
)

find_worker_id = store.read_worker_id


# Seats


async def lock_for_booking(db: Db, request: BookingRequest, client: Client) -> None:
    """Lock every agenda that the booking may use, and then the client. The client's expired holds end."""
    expired = await store.lock_for_booking(db, [request.service_id], request.worker_id, client.id)
    await close_expired_holds(db, expired, skip_locked=True)


async def lock_client(db: Db, client_id: UserId) -> None:
    """As `lock_for_booking`, for a transaction that has locked the agendas already."""
    expired = await store.lock_for_booking(db, (), None, client_id)
    await close_expired_holds(db, expired, skip_locked=True)


async def reserve_seat(
    db: Db,
    request: BookingRequest,
    client: Client,
    *,
    limits: ClientLimits | None,
    hold: HoldLimits | None = None,
    series_id: SeriesId | None = None,
) -> Appointment:
    """Book or hold the requested time, with the least booked of the workers who are free.

    The caller has locked the agendas of the service and the client. Without `limits`, an operator or a
    service books, who may also give the client two appointments at once.
    """
    schedule = await read_schedule_around(db, request)
    agenda = choose_agenda(schedule, request)
    session = agenda.sessions.get(request.starts)
    seat = NewSeat(
        id=AppointmentId(new_id()),
        client=client,
        starts=request.starts,
        time_zone=agenda.worker.time_zone,
        limits=limits,
        hold=hold,
        series_id=series_id,
    )
    if session is not None:
        await close_expired_holds(db, {session.id})
        seated = await store.insert_seat(db, session.id, seat)
    else:
        new = await make_session(db, schedule, agenda, request.starts)
        seated = next(iter(await store.insert_seats_and_sessions(db, [(new, seat)])), None)
    if seated is not None:
        return seated
    await _check_limits(db, seat)
    if limits is not None and client.id is not None:
        await check_client_free(db, client.id, (seat.starts, seat.starts + schedule.duration), is_own=True)
    # The agendas are locked: only a writer that ignores the locks can have taken the time.
    raise slot_taken(schedule, request.starts)


async def _check_limits(db: Db, seat: NewSeat) -> None:
    """Refuse if a limit is why the seat was not inserted."""
    if seat.client.id is None:
        return
    if seat.hold is not None and await store.count_holds(db, seat.client.id) >= seat.hold.max_holds:
        raise TooManyHolds(limit=seat.hold.max_holds)
    if seat.limits is not None:
        upcoming, in_series = await store.count_upcoming(db, seat.client.id)
        if seat.series_id is not None and in_series >= seat.limits.in_series:
            raise TooManyInSeries(limit=seat.limits.in_series)
        if upcoming >= seat.limits.upcoming:
            raise TooManyAppointments(limit=seat.limits.upcoming)


async def check_client_free(
    db: Db, client_id: UserId, span: Span, *, is_own: bool, moved: AppointmentId | None = None
) -> None:
    """Refuse if an appointment or hold of the client, other than `moved`, overlaps the time.

    The refusal names it if the caller is the client (`is_own`).
    """
    found = await store.find_in_the_way(db, client_id, span, moved=moved)
    if found is not None and is_own:
        raise ClientBusy(
            appointment_id=found.id,
            appointment_status=found.status,
            starts_at=found.starts_at,
            ends_at=found.ends_at,
        )
    if found is not None:
        raise ClientBusy


async def read_schedule_around(db: Db, request: BookingRequest) -> ServiceSchedule:
    """Read all that decides about a booking, in one statement. The caller has locked the agendas."""
    (found,) = (await read_schedules_around(db, {request: only(request.worker_id)})).values()
    if isinstance(found, Refusal):
        raise found
    return found


async def read_schedules_around(
    db: Db, requests: Mapping[BookingRequest, Collection[SubjectId] | None]
) -> dict[BookingRequest, ServiceSchedule | Refusal]:
    """The same for several requests, each with the workers to read; None: all of the service.

    A refusal if the service cannot be booked.
    """
    schedules = await read_schedules(
        db,
        [
            ScheduleQuestion(one.service_id, worker_ids, around(one.starts), idle_before=one.starts)
            for one, worker_ids in requests.items()
        ],
    )
    return {
        request: NotFound()
        if schedule is None
        else ServiceRetired()
        if schedule.service.terms.retired
        else schedule
        for request, schedule in zip(requests, schedules, strict=True)
    }


def choose_agenda(schedule: ServiceSchedule, request: BookingRequest) -> Agenda:
    """The agenda to book in. Refused with SlotTaken if the time was a slot, else with SlotNotOffered."""
    agenda = find_agenda(schedule, request)
    if agenda is None:
        raise refusal_of(schedule, request)
    return agenda


def find_agenda(schedule: ServiceSchedule, request: BookingRequest) -> Agenda | None:
    """The least booked agenda that is free; None if there is none."""
    # The first is free more often than not: the conflicts of the others are not computed.
    for agenda in least_booked_first(schedule.agendas):
        if not schedule.conflicts(agenda, request.starts):
            return agenda
    return None


def refusal_of(schedule: ServiceSchedule, request: BookingRequest) -> SlotTaken | SlotNotOffered:
    """The refusal of a time that no agenda has, with the nearest alternatives."""
    conflicts = [schedule.conflicts(agenda, request.starts) for agenda in schedule.agendas]
    if any(TAKEN.issuperset(found) for found in conflicts):
        return slot_taken(schedule, request.starts)
    faults: list[Conflict] = sorted({conflict for found in conflicts for conflict in found})
    alternatives = slots_as_data(alternatives_to(schedule, request.starts))
    return SlotNotOffered(faults=faults or ["no_worker"], alternatives=alternatives)


def slot_taken(schedule: ServiceSchedule, starts: Seconds) -> SlotTaken:
    return SlotTaken(alternatives=slots_as_data(alternatives_to(schedule, starts)))


async def make_session(db: Db, schedule: ServiceSchedule, agenda: Agenda, starts: Seconds) -> NewSession:
    """A session to claim, in the first free room. Expired holds in its time are closed."""
    session = plan_session(schedule, agenda, starts)
    if expired := schedule.expired_sessions(session.subject_nos, session.claim):
        # Sessions that another transaction is closing are skipped: the claim waits for it.
        await close_expired_holds(db, expired, skip_locked=True)
    return session


def plan_session(schedule: ServiceSchedule, agenda: Agenda, starts: Seconds) -> NewSession:
    """A session to claim, in the first free room. Expired holds may be in its time."""
    return NewSession(
        id=SessionId(new_id()),
        worker_no=agenda.worker.no,
        room_no=schedule.free_room(starts),
        service_id=schedule.service.id,
        capacity=schedule.service.terms.capacity,
        claim=schedule.claim(starts),
        begins=starts,
        finishes=starts + schedule.duration,
    )


async def release_seat(
    db: Db,
    found: Appointment,
    status: Status,
    *,
    canceled_by: Party | None = None,
    reason: str | None = None,
) -> Appointment | None:
    """Release the seat; None if the appointment has changed since it was read.

    The session is locked: of two clients who leave a group at once, the second must see that it is the last.
    """
    if found.session_id is not None and found.capacity > 1:
        await store.lock_session(db, found.session_id)
    return await store.release_seat(db, found, status, canceled_by=canceled_by, reason=reason)


async def record_freed_seat(db: Db, left: Appointment) -> None:
    """The waitlist may offer the seat that `left` had."""
    subject_ids = [left.worker_id] if left.room_id is None else [left.worker_id, left.room_id]
    await freed_time.record_freed_seat(
        db, left.service_id, subject_ids, starts_at=left.starts_at, ends_at=left.ends_at
    )


# Expired holds


async def close_expired_holds(
    db: Db, session_ids: Collection[SessionId], *, skip_locked: bool = False, only: UUID | None = None
) -> None:
    """Close the expired holds of sessions: all, or `only` one. Their seats are free from then on."""
    if not session_ids:
        return
    for hold in await store.lock_expired_holds(db, session_ids, skip_locked=skip_locked):
        if only in (None, hold.id) and await store.release_seat(db, hold, "EXPIRED") is not None:
            await hold_ended(db, hold, is_declined=False)
            count_outcome(db, "hold_expired")


async def hold_ended(db: Db, hold: Appointment, *, is_declined: bool) -> None:
    """A hold was released by its client (`is_declined`) or expired."""
    if hold.waitlist_entry_id is not None:
        await freed_time.close_offer(db, hold.id, "WAITING" if is_declined else "EXPIRED")
    await record_freed_seat(db, hold)
    await timers.cancel_timer(db, HOLD_DUE, hold.id)


# Locks and access


async def lock_appointments(
    db: Db, *appointment_ids: AppointmentId, new_worker_id: SubjectId | None = None
) -> list[Appointment]:
    """Lock the agendas that the appointments use or may use, then read the appointments.

    Until the transaction ends, no other transaction changes them. If one moved to another agenda before it
    was locked, all locks are released and taken again: a transaction that holds locks never waits for more.
    """
    await store.set_savepoint(db)
    for _ in range(LOCK_ATTEMPTS):
        locked = await store.lock_agendas_of(db, appointment_ids, new_worker_id)
        found = {one.id: one for one in await store.read_appointments(db, appointment_ids)}
        if not found.keys() >= set(appointment_ids):
            raise NotFound
        if all(one.worker_no in locked for one in found.values()):
            return [found[own_id] for own_id in appointment_ids]
        await store.undo_to_savepoint(db)
    raise Busy


async def lock_for_party(
    db: Db, caller: Principal, appointment_id: UUID, *, new_worker_id: SubjectId | None = None
) -> tuple[Appointment, Party]:
    """Lock an appointment for a change by one of its parties. For other callers, and for holds: 404."""
    (found,) = await lock_appointments(db, AppointmentId(appointment_id), new_worker_id=new_worker_id)
    return found, _party_to(caller, found)


async def get_for_party(db: Db, caller: Principal, appointment_id: UUID) -> Appointment:
    """An appointment for one of its parties. For other callers, and for holds: 404."""
    found = await store.read_appointment(db, appointment_id)
    if found is None:
        raise NotFound
    _party_to(caller, found)
    return found


def _party_to(caller: Principal, found: Appointment) -> Party:
    party = party_of(caller, found)
    if party is None or found.status in HOLD_STATUSES:
        raise NotFound
    return party


def party_of(caller: Principal, found: Appointment) -> Party | None:
    if caller.has("operator"):
        return "operator"
    if caller.has("worker") and found.worker_user_id == caller.id:
        return "worker"
    return "client" if found.client.id == caller.id else None


async def client_for(db: Db, caller: Principal, client: Client | None) -> Client:
    """The client of a booking. Default: the caller; operators and services may name another."""
    if client is None or client.id == caller.id:
        return Client(id=UserId(caller.id))
    caller.require("operator", "service")
    if client.id is not None:
        user = (await people.lock_users(db, [client.id])).get(client.id)
        if user is None or user.erased_at is not None:
            raise NotFound
    return client


async def audit_operator(db: Db, caller: Principal, party: Party, act: str, *found: Appointment) -> None:
    """Record what an operator did; acts of clients and workers are not audited."""
    if party == "operator":
        for one in found:
            await record_audit(db, f"appointment.{act}", one.id, by=caller.id)


# Events and reminders


def event_fields(appointment: Appointment) -> dict[str, Any]:
    """The fields that all events of an appointment have."""
    return {
        "appointment_id": appointment.id,
        "service_id": appointment.service_id,
        "worker_id": appointment.worker_id,
        "worker_user_id": appointment.worker_user_id,
        "client_id": appointment.client.id,
        "starts_at": appointment.starts_at,
        "ends_at": appointment.ends_at,
        "time_zone": appointment.time_zone,
        "sequence": appointment.sequence,
    }


async def publish(db: Db, *events: AppointmentEvent, outcome: str) -> None:
    await outbox.record(db, *events)
    count_outcome(db, outcome, len(events))


def count_outcome(db: Db, outcome: str, times: int = 1) -> None:
    db.after_commit(lambda: OUTCOMES.labels(outcome).inc(times))


async def set_reminder(db: Db, appointment: Appointment, before: timedelta) -> None:
    """Set or move the reminder. A reminder that would be due already is not set."""
    due_at = appointment.starts_at - before
    if due_at > appointment.changed_at:
        await timers.set_timer(db, REMINDER_DUE, appointment.id, due_at=due_at)
    else:
        await timers.cancel_timer(db, REMINDER_DUE, appointment.id)


async def set_first_reminders(db: Db, booked: Collection[Appointment], before: timedelta) -> None:
    """Set the reminders of new appointments, as `set_reminder` does."""
    due_at: dict[UUID, datetime] = {
        one.id: one.starts_at - before for one in booked if one.starts_at - before > one.changed_at
    }
    if due_at:
        await timers.set_timers(db, REMINDER_DUE, due_at)
