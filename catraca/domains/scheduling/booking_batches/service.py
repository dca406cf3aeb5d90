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
    SubjectId,
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
# For a booking with any worker, this many are locked and read first, and all only if none of them is free.
CANDIDATES = 3
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
    decisions = _Decisions(rules.limits)
    if undecided := await _decide(db, new, decisions, candidates=CANDIDATES):
        await _decide(db, undecided, decisions, candidates=None)
    answers |= decisions.locked | decisions.refusals()
    if decisions.planned:
        answers |= await _insert(db, decisions.planned, rules)
    return list(answers.values())


async def _decide(
    db: Db, bookings: Sequence[Booking], decisions: "_Decisions", *, candidates: int | None
) -> list[Booking]:
    """Lock, read and decide; returns the bookings with any worker that none of their candidates can have."""
    locks = await store.lock_without_waiting(
        db,
        [(booking.request, UserId(booking.caller.id)) for booking in bookings],
        decisions.limits,
        candidates=candidates,
    )
    ready: list[Booking] = []
    worker_ids: dict[BookingRequest, Sequence[SubjectId] | None] = {}
    for booking, lock in zip(bookings, locks, strict=True):
        if lock.state == "locked":
            decisions.locked[booking] = "locked"
        elif lock.state == "ready":
            ready.append(booking)
            worker_ids[booking.request] = lock.worker_ids
    schedules = await read_schedules_around(db, worker_ids)
    undecided: list[Booking] = []
    for booking in ready:
        is_partial = candidates is not None and booking.request.worker_id is None
        if not decisions.decide(booking, schedules[booking.request], is_partial=is_partial):
            undecided.append(booking)
    return undecided


@dataclass(slots=True)
class _Decisions:
    """Decides bookings in their order. Bookings that are in no result are special."""

    limits: ClientLimits
    planned: dict[Booking, tuple[NewSession, NewSeat]] = field(default_factory=dict)
    locked: dict[Booking, Answer] = field(default_factory=dict)
    _refused: dict[Booking, ServiceSchedule | Refusal] = field(default_factory=dict)
    # Each booking sees the time that those before it claim.
    _claims: defaultdict[SubjectNo, list[Span]] = field(default_factory=lambda: defaultdict(list))

    def decide(self, booking: Booking, found: ServiceSchedule | Refusal, *, is_partial: bool) -> bool:
        """False if no agenda of a partial schedule is free: the other workers' decide."""
        if isinstance(found, Refusal):
            self._refused[booking] = found
            return True
        if _may_join_new_session(found, self._claims):
            return True
        schedule = found.with_claims(self._claims)
        agenda = find_agenda(schedule, booking.request)
        if agenda is None:
            if not is_partial:
                self._refused[booking] = found
            return not is_partial
        session = plan_session(schedule, agenda, booking.request.starts)
        is_group = session.begins in agenda.sessions
        if is_group or schedule.expired_sessions(session.subject_nos, session.claim):
            return True
        self.planned[booking] = session, _seat(booking, session, agenda.worker.time_zone, self.limits)
        for no in session.subject_nos:
            self._claims[no].append(session.claim)
        return True

    def refusals(self) -> dict[Booking, Refusal]:
        """Requests for one time share a refusal. The times of all bookings are no alternatives."""
        found = {booking.request: schedule for booking, schedule in self._refused.items()}
        refusals = {
            request: one if isinstance(one, Refusal) else refusal_of(one.with_claims(self._claims), request)
            for request, one in found.items()
        }
        return {booking: refusals[booking.request] for booking in self._refused}


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
