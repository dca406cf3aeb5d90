"""Book an appointment, together with others that arrive at the same time.

Bookings that arrive during a transaction go together into the next one. It waits for no lock, and makes the
bookings that need nothing but a free time. Any other booking, and each of a transaction that failed, is made
in a transaction of its own, in the queue of its worker: so it fails for its own cause only. Row locks and
constraints decide in both.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from catraca.domains.people import UserId
from catraca.domains.scheduling.appointments.model import (
    Appointment,
    BookingRequest,
    Client,
    NewSeat,
    NewSession,
)
from catraca.domains.scheduling.appointments.service import (
    find_agenda,
    plan_session,
    read_schedules_around,
    refusal_of,
)
from catraca.domains.scheduling.appointments.store import insert_seats_and_sessions
from catraca.domains.scheduling.availability.model import ServiceSchedule
from catraca.domains.scheduling.booking.service import book_for, publish_booked
from catraca.domains.scheduling.booking_batches import store
from catraca.domains.scheduling.booking_batches.model import Undecided
from catraca.domains.scheduling.calendar_math.spans import Span
from catraca.domains.scheduling.shared.model import (
    AppointmentId,
    BookingRules,
    ClientLimits,
    SubjectNo,
    queue_key,
)
from catraca.platform.auth import Principal
from catraca.platform.database import Database, Db, GenericPlans, outbox
from catraca.platform.database.idempotency import (
    Claim,
    StoredResponse,
    lock_unused_keys,
    respond_once,
    store_responses,
)
from catraca.platform.errors import Busy, Refusal
from catraca.platform.gather import Gather
from catraca.platform.ids import new_id
from catraca.platform.key_queues import KeyQueues

# A transaction must be short: it locks the agendas of its bookings.
MOST_AT_ONCE = 100
# Transactions that lock an agenda are short. After these pauses a booking waits for the lock.
LOCKED_PAUSES_SECONDS = (0.005, 0.01, 0.02)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Booking:
    """A request to book, and how its response is made and stored."""

    caller: Principal
    request: BookingRequest
    # None: the caller.
    client: Client | None
    hold_id: AppointmentId | None
    # The request's use of an idempotency key.
    claim: Claim | None
    respond: Callable[[Appointment], StoredResponse]
    # The id of the HTTP request, for events.
    trace: str | None = field(default_factory=outbox.current_trace)

    @property
    def is_plain(self) -> bool:
        """The caller books for itself, and has no hold."""
        return self.hold_id is None and (self.client is None or self.client.id == self.caller.id)


Answer = StoredResponse | Refusal | Undecided


class Bookings:
    """Per-process service; safe to run in many processes."""

    def __init__(self, database: Database, queues: KeyQueues, rules: BookingRules) -> None:
        self._database = database
        self._queues = queues
        self._rules = rules
        # One booking per client: the limits of the second depend on the first.
        self._together: Gather[Booking, Answer] = Gather(
            self._book_together, most=MOST_AT_ONCE, apart=lambda booking: booking.caller.id
        )

    async def book(self, booking: Booking) -> StoredResponse:
        """Book, or raise the refusal. A repeat with the same key gets the first response."""
        answer = await self._ask(booking) if booking.is_plain else "special"
        if isinstance(answer, Refusal):
            raise answer.with_traceback(None)  # requests for the same time share it
        return answer if isinstance(answer, StoredResponse) else await self._book_alone(booking)

    async def _ask(self, booking: Booking) -> Answer:
        for pause_seconds in LOCKED_PAUSES_SECONDS:
            answer = await self._together.ask(booking)
            if answer != "locked":
                return answer
            await asyncio.sleep(pause_seconds)
        return "locked"

    async def _book_alone(self, booking: Booking) -> StoredResponse:
        async def work(db: Db) -> StoredResponse:
            return await respond_once(db, booking.claim, lambda: self._book_for(db, booking))

        request = booking.request
        async with self._queues.enter(queue_key(request.service_id, request.worker_id)):
            return await self._database.run(work, booking.claim)

    async def _book_for(self, db: Db, booking: Booking) -> StoredResponse:
        booked = await book_for(
            db, booking.caller, booking.request, booking.client, rules=self._rules, hold_id=booking.hold_id
        )
        return booking.respond(booked)

    async def _book_together(self, bookings: Sequence[Booking]) -> Sequence[Answer]:
        try:
            return await self._database.run(
                lambda db: book_together(db, bookings, rules=self._rules), GenericPlans()
            )
        except _Undone:
            pass
        except Exception as error:
            # Busy: nothing was committed. Other refusals, such as an unknown outcome, are those of all.
            if isinstance(error, Refusal) and not isinstance(error, Busy):
                raise
            log.warning("bookings_one_by_one", bookings=len(bookings), error=type(error).__name__)
        return ["special" for _ in bookings]


class _Undone(Exception):
    """A writer that ignores the locks was faster: nothing is committed."""


async def book_together(db: Db, bookings: Sequence[Booking], *, rules: BookingRules) -> list[Answer]:
    """Book what can be booked without waiting; the answers are in the order of `bookings`."""
    answers: dict[Booking, Answer] = dict.fromkeys(bookings, "special")
    # A booking whose key was used before is special: in its own transaction it gets the stored response.
    unused = await lock_unused_keys(db, [booking.claim for booking in bookings if booking.claim])
    new = [booking for booking in bookings if booking.claim is None or booking.claim in unused]
    states = await store.lock_without_waiting(
        db, [(booking.request, UserId(booking.caller.id)) for booking in new], rules.limits
    )
    ready: list[Booking] = []
    for booking, state in zip(new, states, strict=True):
        if state == "ready":
            ready.append(booking)
        else:
            answers[booking] = state
    schedules = await read_schedules_around(db, {booking.request for booking in ready})
    decisions = _decide(ready, schedules, rules.limits)
    answers |= decisions.refusals
    if decisions.planned:
        answers |= await _insert(db, decisions.planned, rules)
    return list(answers.values())


@dataclass(frozen=True, slots=True)
class _Decisions:
    """Bookings that are in neither are special."""

    planned: dict[Booking, tuple[NewSession, NewSeat]]
    refusals: dict[Booking, Refusal]


def _decide(
    bookings: Sequence[Booking],
    schedules: Mapping[BookingRequest, ServiceSchedule | Refusal],
    limits: ClientLimits,
) -> _Decisions:
    """Decide bookings in their order. Each sees the time that those before it claim."""
    planned: dict[Booking, tuple[NewSession, NewSeat]] = {}
    refused: list[Booking] = []
    claims: defaultdict[SubjectNo, list[Span]] = defaultdict(list)
    for booking in bookings:
        found = schedules[booking.request]
        if isinstance(found, Refusal):
            refused.append(booking)
            continue
        if _may_join_new_session(found, claims):
            continue
        schedule = found.with_claims(claims)
        agenda = find_agenda(schedule, booking.request)
        if agenda is None:
            refused.append(booking)
            continue
        session = plan_session(schedule, agenda, booking.request.starts)
        is_group = session.begins in agenda.sessions
        if is_group or schedule.expired_sessions(session.subject_nos, session.claim):
            continue
        planned[booking] = session, _seat(booking, session, agenda.worker.time_zone, limits)
        for no in session.subject_nos:
            claims[no].append(session.claim)
    # Requests for one time share a refusal. All bookings are known now: their times are no alternatives.
    refusals: dict[BookingRequest, Refusal] = {}
    for request in {booking.request for booking in refused}:
        found = schedules[request]
        refusals[request] = (
            found if isinstance(found, Refusal) else refusal_of(found.with_claims(claims), request)
        )
    return _Decisions(planned, {booking: refusals[booking.request] for booking in refused})


def _may_join_new_session(schedule: ServiceSchedule, claims: Mapping[SubjectNo, Sequence[Span]]) -> bool:
    """True if a session that was just planned may have more seats for this service."""
    is_for_groups = schedule.service.terms.capacity > 1
    return is_for_groups and any(agenda.worker.no in claims for agenda in schedule.agendas)


def _seat(booking: Booking, session: NewSession, time_zone: str, limits: ClientLimits) -> NewSeat:
    return NewSeat(
        id=AppointmentId(new_id()),
        client=Client(id=UserId(booking.caller.id)),
        starts=session.begins,
        time_zone=time_zone,
        limits=limits,
    )


async def _insert(
    db: Db, planned: Mapping[Booking, tuple[NewSession, NewSeat]], rules: BookingRules
) -> dict[Booking, StoredResponse]:
    """Insert the appointments, their events and their responses."""
    found = {one.id: one for one in await insert_seats_and_sessions(db, list(planned.values()))}
    if not found:
        raise _Undone
    booked = {booking: found[seat.id] for booking, (_, seat) in planned.items()}
    traces = [booking.trace for booking in booked]
    await publish_booked(db, *booked.values(), rules=rules, traces=traces)
    responses = {booking: booking.respond(one) for booking, one in booked.items()}
    await store_responses(
        db, [(booking.claim, response) for booking, response in responses.items() if booking.claim]
    )
    return responses
