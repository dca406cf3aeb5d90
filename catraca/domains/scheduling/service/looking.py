"""What is free, and why something is not: read in three queries, computed when asked, never stored."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat

from catraca.domains.scheduling.errors import RangeInvalid, RangeTooLong
from catraca.domains.scheduling.model.agendas import ServiceId, SubjectId, SubjectNo, Terms
from catraca.domains.scheduling.model.diary import Agenda, Diary, Fault, Session, Slot, nearest
from catraca.domains.scheduling.model.hours import Hours
from catraca.domains.scheduling.model.spans import Seconds, Span
from catraca.domains.scheduling.model.zones import at
from catraca.domains.scheduling.store import diaries
from catraca.domains.scheduling.store.agendas import read_worker
from catraca.domains.scheduling.store.diaries import NOTHING_TAKEN, Offering, Reading
from catraca.platform.database import Db
from catraca.platform.errors import NotFound

DAY: Seconds = 86_400
MOST_DAYS = 92
# So much is read at a time, and each time more: most pages are full before the first is over.
WINDOWS: tuple[Seconds, ...] = (2 * DAY, 8 * DAY, 31 * DAY)
# Where alternatives are looked for, and how busy somebody is.
AROUND: Seconds = 7 * DAY
ALTERNATIVES = 5

Sessions = Mapping[SubjectNo, Mapping[Seconds, Session]]


@dataclass(frozen=True, slots=True)
class Page:
    slots: list[Slot]
    # More of them come after the last.
    more: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one worker and one time."""

    agenda: Agenda
    faults: list[Fault]


async def fill_diary(db: Db, offering: Offering, within: Span, *, moment: Seconds) -> Diary:
    worked, touched = stretches(offering.service.terms, within)
    overrides = await diaries.overrides_within(db, [worker.no for worker, _ in offering.workers], worked)
    taken, lapsed = await diaries.taken_within(db, offering.subject_nos, touched, before=moment)
    sessions = await sessions_in(db, offering, touched)
    return diary_of(Reading(offering, overrides, taken, lapsed), worked, sessions)


def stretches(terms: Terms, within: Span) -> tuple[Span, Span]:
    """What starts in there lasts, and what it touches with its buffers."""
    worked = (within[0], within[1] + terms.duration_minutes * 60)
    return worked, (worked[0] - terms.buffer_before_minutes * 60, worked[1] + terms.buffer_after_minutes * 60)


async def sessions_in(db: Db, offering: Offering, touched: Span) -> Sessions:
    if offering.service.terms.capacity == 1:
        return {}
    return await diaries.sessions_within(db, offering.service.id, offering.subject_nos, touched)


def diary_of(found: Reading, worked: Span, sessions: Sessions) -> Diary:
    offering, taken = found.offering, found.taken
    agendas: list[Agenda] = []
    for worker, rules in offering.workers:
        of_worker = taken.get(worker.no, NOTHING_TAKEN)
        agendas.append(
            Agenda(
                worker,
                Hours(worker.time_zone, rules, found.overrides.get(worker.no, {}), worker.holidays),
                worked,
                of_worker.busy,
                sessions.get(worker.no, {}),
                of_worker.booked,
                of_worker.idle_since,
            )
        )
    rooms = {no: taken.get(no, NOTHING_TAKEN).busy for no in offering.rooms}
    return Diary(
        offering.service, agendas, rooms if offering.needs_room else None, offering.now, found.lapsed
    )


async def find_slots(
    db: Db,
    service_id: ServiceId,
    *,
    worker_id: SubjectId | None,
    within: Span,
    after: tuple[Seconds, SubjectId] | None,
    limit: int,
) -> Page:
    """The free slots of a service, by any worker or one, a page at a time and in order."""
    check_range(within)
    offering = await _offering(db, service_id, worker_id)
    found: list[Slot] = []
    for window in _windows(_bookable(offering, within, after)):
        diary = await fill_diary(db, offering, window, moment=window[0])
        fresh = (slot for slot in diary.slots(window) if after is None or slot[:2] > after)
        found.extend(islice(fresh, limit + 1 - len(found)))
        if len(found) > limit:
            break
    return Page(found[:limit], more=len(found) > limit)


async def _offering(db: Db, service_id: ServiceId, worker_id: SubjectId | None) -> Offering:
    """Without workers when nobody does it; a worker who does not is told from one that there is not."""
    offering = await diaries.read_offering(db, service_id, worker_id)
    if offering is None:
        raise NotFound
    if worker_id is not None and not offering.workers and await read_worker(db, worker_id) is None:
        raise NotFound
    return offering


def check_range(within: Span) -> None:
    if within[0] >= within[1]:
        raise RangeInvalid
    if within[1] - within[0] > MOST_DAYS * DAY:
        raise RangeTooLong(most_days=MOST_DAYS)


def _bookable(offering: Offering, within: Span, after: tuple[Seconds, SubjectId] | None) -> Span:
    """As much of it as anybody could book: the rest is not even read."""
    terms = offering.service.terms
    first = max(within[0], offering.now + terms.min_notice_minutes * 60, after[0] if after else 0)
    # A day more, for clocks that are set.
    return first, min(within[1], offering.now + (terms.horizon_days + 1) * DAY)


def _windows(within: Span) -> Iterator[Span]:
    start, end = within
    for length in chain(WINDOWS, repeat(WINDOWS[-1])):
        if start >= end:
            return
        yield start, min(start + length, end)
        start += length


async def explain_slot(
    db: Db, service_id: ServiceId, *, worker_id: SubjectId | None, starts: Seconds
) -> tuple[Diary, list[Explanation], list[Slot]]:
    """Why a time is offered or not, worker by worker; and the nearest that is free."""
    offering = await _offering(db, service_id, worker_id)
    diary = await fill_diary(db, offering, around(starts), moment=starts)
    explained = [Explanation(agenda, diary.faults(agenda, starts)) for agenda in diary.agendas]
    return diary, explained, alternatives_to(diary, starts)


def around(starts: Seconds) -> Span:
    return starts - AROUND, starts + AROUND


def alternatives_to(diary: Diary, starts: Seconds) -> list[Slot]:
    """The nearest free slots, before and after; no more of them are looked at than are told."""
    first, last = around(starts)
    after = islice(diary.slots((starts, last)), ALTERNATIVES)
    before = islice(diary.slots_backwards((first, starts)), ALTERNATIVES)
    return nearest([*before, *after], starts, limit=ALTERNATIVES)


def shown(slots: Sequence[Slot]) -> list[dict[str, object]]:
    """As a refusal tells them."""
    return [
        {
            "worker_id": slot.worker_id,
            "starts_at": at(slot.starts),
            "ends_at": at(slot.ends),
            "seats_left": slot.seats_left,
        }
        for slot in slots
    ]
