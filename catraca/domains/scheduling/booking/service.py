"""Changes of appointments. Each is safe to repeat, and each publishes an event."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from catraca.domains.people import UserId
from catraca.domains.scheduling.agendas.service import find_worker_of_user
from catraca.domains.scheduling.appointments import service as appointments
from catraca.domains.scheduling.appointments.model import (
    MOVES,
    UPCOMING_STATUSES,
    Appointment,
    BookingRequest,
    Client,
    Party,
    Status,
)
from catraca.domains.scheduling.appointments.service import (
    REMINDER_DUE,
    audit_operator,
    client_for,
    count_outcome,
    event_fields,
    lock_appointments,
    lock_for_party,
    publish,
    set_first_reminders,
    set_reminder,
)
from catraca.domains.scheduling.appointments.store import lock_session, read_appointment
from catraca.domains.scheduling.booking import store
from catraca.domains.scheduling.booking.store import AppointmentFilter
from catraca.domains.scheduling.calendar_math.spans import Seconds
from catraca.domains.scheduling.calendar_math.zones import to_seconds
from catraca.domains.scheduling.errors import (
    AppointmentBegun,
    AppointmentNotStarted,
    AppointmentOver,
    RangeInvalid,
)
from catraca.domains.scheduling.holds.service import book_hold
from catraca.domains.scheduling.shared.model import AppointmentId, BookingRules, SubjectId
from catraca.events import (
    AppointmentBooked,
    AppointmentCanceled,
    AppointmentConfirmed,
    AppointmentMissed,
    AppointmentNear,
    AppointmentRescheduled,
)
from catraca.platform.auth import Principal
from catraca.platform.database import Db, outbox, timers
from catraca.platform.errors import Busy, Forbidden

get_appointment = appointments.get_for_party


# Book


async def book_for(
    db: Db,
    caller: Principal,
    request: BookingRequest,
    client: Client | None,
    *,
    rules: BookingRules,
    hold_id: AppointmentId | None,
) -> Appointment:
    """Book for the caller, or for another client if the caller is an operator or a service."""
    client = await client_for(db, caller, client)
    by_operator = client.id != caller.id
    booked = await book(db, request, client, rules=rules, hold_id=hold_id, by_operator=by_operator)
    if by_operator:
        await audit_operator(db, caller, "operator", "booked", booked)
    return booked


async def book(
    db: Db,
    request: BookingRequest,
    client: Client,
    *,
    rules: BookingRules,
    hold_id: AppointmentId | None = None,
    by_operator: bool = False,
) -> Appointment:
    """Book a time, or refuse with the nearest alternatives. Of several requests at once one succeeds.

    A client's own bookings (not `by_operator`) are limited, and no two of them overlap. With a hold that has
    not expired, it succeeds. An expired hold is ignored. Booked again with the same hold, it is the same
    appointment.
    """
    if hold_id is not None:
        held, is_new = await book_hold(db, hold_id, request, client)
        if held is not None:
            if is_new:
                await publish_booked(db, held, rules=rules)
            return held
    await appointments.lock_for_booking(db, request, client)
    limits = None if by_operator else rules.limits
    booked = await appointments.reserve_seat(db, request, client, limits=limits)
    await publish_booked(db, booked, rules=rules)
    return booked


async def publish_booked(
    db: Db, *booked: Appointment, rules: BookingRules, traces: Sequence[str | None] | None = None
) -> None:
    """Publish the events of new appointments and set their reminders.

    `traces` are the ids of the requests that booked them. Default: the request that is being served.
    """
    traces = traces or [outbox.current_trace()] * len(booked)
    events = [
        (AppointmentBooked(**event_fields(one)), trace) for one, trace in zip(booked, traces, strict=True)
    ]
    await outbox.record_traced(db, events)
    count_outcome(db, "booked", len(events))
    await set_first_reminders(db, booked, rules.reminder)


# Reschedule and swap


async def reschedule(
    db: Db,
    caller: Principal,
    appointment_id: UUID,
    *,
    starts: Seconds,
    worker_id: SubjectId | None,
    rules: BookingRules,
) -> Appointment:
    """Move an appointment to another time or worker. If that is refused, it keeps its time.

    Its own old time is not in its way; another appointment of the client is, unless an operator moves it.
    Clients may move it before it begins only.
    """
    found, party = await lock_for_party(db, caller, appointment_id, new_worker_id=worker_id)
    _check_upcoming(found)
    _check_client_in_time(found, party)
    request = BookingRequest(
        service_id=found.service_id, worker_id=worker_id or found.worker_id, starts=starts
    )
    moved = found
    if (to_seconds(found.starts_at), found.worker_id) != (starts, request.worker_id):
        if party != "operator" and found.client.id is not None:
            await appointments.lock_client(db, found.client.id)
        await _vacate(db, found)
        moved = await _seat_again(db, found, request, by=party)
        await _publish_moved(db, found, moved, rules)
    await audit_operator(db, caller, party, "rescheduled", moved)
    return moved


async def swap(
    db: Db, operator: Principal, one_id: AppointmentId, other_id: AppointmentId, *, rules: BookingRules
) -> list[Appointment]:
    """Exchange the times and workers of two appointments, or change neither."""
    before = await lock_appointments(db, one_id, other_id)
    for found in before:
        _check_upcoming(found)
    one, other = swapped = before
    if one.session_id != other.session_id:  # in one group, each has the other's time already
        swapped = await _swap(db, one, other, rules)
    await audit_operator(db, operator, "operator", "swapped", *swapped)
    return swapped


async def _swap(db: Db, one: Appointment, other: Appointment, rules: BookingRules) -> list[Appointment]:
    for found in (one, other):
        await _vacate(db, found)
    moved: list[Appointment] = []
    for found, place in ((one, other), (other, one)):
        request = BookingRequest(
            service_id=found.service_id, worker_id=place.worker_id, starts=to_seconds(place.starts_at)
        )
        moved.append(await _seat_again(db, found, request, by="operator"))
    for before, after in zip((one, other), moved, strict=True):
        await _publish_moved(db, before, after, rules)
    return moved


async def _vacate(db: Db, found: Appointment) -> None:
    assert found.session_id is not None
    await lock_session(db, found.session_id)
    await store.vacate_seat(db, found.id, found.session_id)


async def _seat_again(db: Db, found: Appointment, request: BookingRequest, *, by: Party) -> Appointment:
    schedule = await appointments.read_schedule_around(db, request)
    agenda = appointments.choose_agenda(schedule, request)
    session = agenda.sessions.get(request.starts)
    if session is not None:
        await appointments.close_expired_holds(db, {session.id})
        session_id, is_claimed = session.id, True
    else:
        new = await appointments.make_session(db, schedule, agenda, request.starts)
        session_id, is_claimed = new.id, await store.claim_session(db, new)
    zone_name = agenda.worker.time_zone
    moved = is_claimed and await store.move_to_session(
        db, found.id, session_id, time_zone=zone_name, starts=request.starts, by_operator=by == "operator"
    )
    if not moved:
        if by != "operator" and found.client.id is not None:
            span = request.starts, request.starts + schedule.duration
            await appointments.check_client_free(
                db, found.client.id, span, is_own=by == "client", moved=found.id
            )
        raise appointments.slot_taken(schedule, request.starts)
    return moved


async def _publish_moved(db: Db, before: Appointment, after: Appointment, rules: BookingRules) -> None:
    event = AppointmentRescheduled(
        **event_fields(after),
        previous_starts_at=before.starts_at,
        previous_worker_id=before.worker_id,
        previous_worker_user_id=before.worker_user_id,
        previous_time_zone=before.time_zone,
    )
    await publish(db, event, outcome="rescheduled")
    await appointments.record_freed_seat(db, before)
    await set_reminder(db, after, rules.reminder)


# Cancel, confirm, no-show


async def cancel(db: Db, caller: Principal, appointment_id: UUID, *, reason: str | None) -> Appointment:
    """Cancel an appointment and free its time. Clients may cancel it before it begins only."""
    found, party = await lock_for_party(db, caller, appointment_id)
    canceled = await cancel_locked(db, found, by=party, reason=reason)
    await audit_operator(db, caller, party, "canceled", canceled)
    return canceled


async def cancel_locked(db: Db, found: Appointment, *, by: Party, reason: str | None) -> Appointment:
    """Cancel an appointment that `lock_appointments` returned."""
    if found.status == "CANCELED":
        return found
    _check_move(found, "CANCELED")
    _check_client_in_time(found, by)
    canceled = _done(await appointments.release_seat(db, found, "CANCELED", canceled_by=by, reason=reason))
    await publish(db, AppointmentCanceled(**event_fields(canceled), canceled_by=by), outcome="canceled")
    await appointments.record_freed_seat(db, found)
    await timers.cancel_timer(db, REMINDER_DUE, found.id)
    return canceled


async def confirm(db: Db, caller: Principal, appointment_id: UUID) -> Appointment:
    """A party confirms that the appointment will take place."""
    found, party = await lock_for_party(db, caller, appointment_id)
    confirmed = found
    if found.status != "CONFIRMED":
        confirmed = await _set_status(db, found, "CONFIRMED")
        await publish(db, AppointmentConfirmed(**event_fields(confirmed)), outcome="confirmed")
    await audit_operator(db, caller, party, "confirmed", confirmed)
    return confirmed


async def record_no_show(db: Db, caller: Principal, appointment_id: UUID) -> Appointment:
    """The client did not come. For workers and operators, once the appointment has begun."""
    found, party = await lock_for_party(db, caller, appointment_id)
    if party == "client":
        raise Forbidden
    missed = found
    if found.status != "NO_SHOW":
        _check_move(found, "NO_SHOW")
        if not found.has_begun:
            raise AppointmentNotStarted(starts_at=found.starts_at)
        missed = await _set_status(db, found, "NO_SHOW")
        await publish(db, AppointmentMissed(**event_fields(missed)), outcome="no_show")
    await audit_operator(db, caller, party, "missed", missed)
    return missed


async def _set_status(db: Db, found: Appointment, status: Status) -> Appointment:
    _check_move(found, status)
    return _done(await store.update_status(db, found.id, status, expected=[found.status]))


def _done(changed: Appointment | None) -> Appointment:
    if changed is None:  # changed by a writer that ignores the locks
        raise Busy
    return changed


# Reminders and lists


async def remind(db: Db, appointment_id: UUID) -> None:
    """Publish the reminder; nothing if the appointment was canceled or has begun."""
    found = await read_appointment(db, appointment_id)
    if found is not None and found.status in UPCOMING_STATUSES and not found.has_begun:
        await publish(db, AppointmentNear(**event_fields(found)), outcome="reminded")


async def find_appointments(
    db: Db,
    caller: Principal,
    wanted: AppointmentFilter,
    *,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Appointment]:
    """Operators see all appointments, workers those of their agenda, and each caller its own."""
    first, last = wanted.starts_from, wanted.starts_before
    if first is not None and last is not None and first >= last:
        raise RangeInvalid
    if not caller.has("operator") and not await _is_own_agenda(db, caller, wanted.worker_id):
        if wanted.client_id not in (None, caller.id):
            raise Forbidden
        wanted = replace(wanted, client_id=caller.id)
    return await store.find_appointments(db, wanted, after=after, limit=limit)


async def _is_own_agenda(db: Db, caller: Principal, worker_id: UUID | None) -> bool:
    if worker_id is None or not caller.has("worker"):
        return False
    own = await find_worker_of_user(db, UserId(caller.id))
    return own is not None and own.id == worker_id


# Checks


def _check_upcoming(found: Appointment) -> None:
    if found.status not in UPCOMING_STATUSES:
        raise AppointmentOver(appointment_status=found.status, wanted="BOOKED")


def _check_move(found: Appointment, status: Status) -> None:
    if status not in MOVES[found.status]:
        raise AppointmentOver(appointment_status=found.status, wanted=status)


def _check_client_in_time(found: Appointment, by: Party) -> None:
    """A client who did not come cannot undo it; the worker decides."""
    if by == "client" and found.has_begun:
        raise AppointmentBegun(starts_at=found.starts_at)
