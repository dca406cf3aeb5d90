"""Which times can be booked: slots, and the conflicts of a single time with their details. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property, reduce
from heapq import merge as merge_sorted
from itertools import groupby
from typing import Literal, NamedTuple

from catraca.domains.scheduling.agendas.model import Service, Worker
from catraca.domains.scheduling.calendar_math.holidays import holiday_on
from catraca.domains.scheduling.calendar_math.hours import ClosedBy, Hours
from catraca.domains.scheduling.calendar_math.spans import (
    ALWAYS,
    DAY,
    Seconds,
    Span,
    covers,
    intersect,
    merge,
    overlaps,
    subtract,
)
from catraca.domains.scheduling.calendar_math.zones import (
    MINUTES_A_DAY,
    days_later,
    epoch_of,
    is_skipped,
    local_time,
    moments_of,
)
from catraca.domains.scheduling.shared.model import SessionId, SubjectId, SubjectNo

Conflict = Literal["too_soon", "beyond_horizon", "outside_hours", "off_grid", "busy", "full", "no_room"]
# Conflicts with other bookings: without those, the time would be a slot.
TAKEN: frozenset[Conflict] = frozenset({"busy", "full", "no_room"})


class Slot(NamedTuple):
    """Slots sort in the order in which they are listed."""

    starts: Seconds
    worker_id: SubjectId
    ends: Seconds
    seats_left: int


class ExpiredHold(NamedTuple):
    """A subject's time that only expired holds occupy. The time is free, its rows are not deleted yet."""

    subject_no: SubjectNo
    span: Span
    session_id: SessionId


@dataclass(frozen=True, slots=True)
class Session:
    """A booked time of this service. Its end and capacity are those of its first booking."""

    id: SessionId
    finishes: Seconds
    capacity: int
    seats_taken: int

    @property
    def seats_left(self) -> int:
        return self.capacity - self.seats_taken


@dataclass(frozen=True)
class Agenda:
    """A worker's time in the span that was read."""

    worker: Worker
    hours: Hours
    within: Span
    # Sorted, without overlaps.
    busy: Sequence[Span] = ()
    # Sessions of this service that more clients can join, by start.
    sessions: Mapping[Seconds, Session] = field(default_factory=dict[Seconds, Session])
    booked_seconds: Seconds = 0
    # The end of the last session before the requested time.
    idle_since: Seconds = 0

    @cached_property
    def shifts(self) -> list[Span]:
        return self.hours.shifts(self.within)

    @cached_property
    def open_hours(self) -> list[Span]:
        return merge(self.shifts)

    @cached_property
    def free(self) -> list[Span]:
        """Working time without the busy time."""
        return subtract(self.open_hours, self.busy)

    def with_claims(self, claimed: Sequence[Span]) -> "Agenda":
        """The agenda after this time was claimed, too."""
        claimed_seconds = sum(end - start for start, end in claimed)
        return replace(
            self, busy=merge([*self.busy, *claimed]), booked_seconds=self.booked_seconds + claimed_seconds
        )

    def grid(self, within: Span, step: Seconds, *, backwards: bool = False) -> Iterator[Seconds]:
        """The points of all shifts' grids in a span, each once, ascending or descending."""
        here = [shift for shift in self.shifts if shift[0] < within[1] and shift[1] > within[0]]
        each = [_grid_points(shift, within, step) for shift in here]
        points = merge_sorted(*map(reversed, each), reverse=True) if backwards else merge_sorted(*each)
        return (point for point, _ in groupby(points))


def _grid_points(shift: Span, within: Span, step: Seconds) -> range:
    before = max(0, within[0] - shift[0])
    return range(shift[0] + -(-before // step) * step, min(shift[1], within[1]), step)


@dataclass(frozen=True)
class ServiceSchedule:
    """A service with the agendas of its workers and rooms, as of one moment."""

    service: Service
    agendas: Sequence[Agenda]
    # The busy time of each room; None: the service needs no room.
    rooms: Mapping[SubjectNo, Sequence[Span]] | None
    now: Seconds
    expired_holds: Sequence[ExpiredHold] = ()
    # Workers without an agenda here, because their stored data cannot be read.
    unreadable: Sequence[SubjectId] = ()

    def slots(self, within: Span) -> Iterator[Slot]:
        """The slots that start in a span, sorted; computed one by one."""
        return merge_sorted(*(self._slots_of(agenda, within) for agenda in self.agendas))

    def slots_backwards(self, within: Span) -> Iterator[Slot]:
        """The same, latest start first; slots of one start are still ordered by worker."""
        each = (self._slots_of(agenda, within, backwards=True) for agenda in self.agendas)
        return merge_sorted(*each, key=lambda slot: (-slot.starts, slot.worker_id))

    def _slots_of(self, agenda: Agenda, within: Span, *, backwards: bool = False) -> Iterator[Slot]:
        first, last = max(within[0], self.earliest), min(within[1], self.latest(agenda))
        spans = self._free_starts(agenda, (first, last))
        for span in reversed(spans) if backwards else spans:
            for starts in agenda.grid(span, self.step, backwards=backwards):
                yield self._slot(agenda, starts)

    def _free_starts(self, agenda: Agenda, within: Span) -> list[Span]:
        """The starts without a conflict, on the grid or not."""
        worked = merge((start, end - self.duration + 1) for start, end in agenda.open_hours)
        blocked = self._blocked_starts(agenda.busy)
        if self._starts_without_room:
            blocked = merge([*blocked, *self._starts_without_room])
        possible = intersect(worked, [within])
        free = subtract(possible, blocked)
        if not agenda.sessions:
            return free
        joinable = [
            (begins, begins + 1) for begins, session in agenda.sessions.items() if session.seats_left > 0
        ]
        return merge([*free, *intersect(possible, sorted(joinable))])

    @cached_property
    def _starts_without_room(self) -> list[Span]:
        """The starts for which every room is busy; all, if the service needs a room and has none."""
        if self.rooms is None:
            return []
        return reduce(intersect, map(self._blocked_starts, self.rooms.values()), [ALWAYS])

    def _blocked_starts(self, busy: Iterable[Span]) -> list[Span]:
        """The starts whose claim would overlap busy time."""
        terms = self.service.terms
        before = self.duration + terms.buffer_after_minutes * 60 - 1
        return merge((start - before, end + terms.buffer_before_minutes * 60) for start, end in busy)

    def conflicts(self, agenda: Agenda, starts: Seconds) -> list[Conflict]:
        """Why this time is not a slot; empty if it is one."""
        found: list[Conflict] = []
        if starts < self.earliest:
            found.append("too_soon")
        if starts >= self.latest(agenda):
            found.append("beyond_horizon")
        # Only the shifts around the time: `agenda.shifts` covers weeks, for each of many workers.
        shifts = agenda.hours.shifts((starts, starts + self.duration))
        if not covers(merge(shifts), starts, starts + self.duration):
            found.append("outside_hours")
        elif not any(start <= starts and (starts - start) % self.step == 0 for start, _ in shifts):
            found.append("off_grid")
        taken = self._taken(agenda, starts)
        return [*found, taken] if taken else found

    def _taken(self, agenda: Agenda, starts: Seconds) -> Conflict | None:
        session = agenda.sessions.get(starts)
        if session is not None:
            return None if session.seats_left > 0 else "full"
        if overlaps(agenda.busy, *self.claim(starts)):
            return "busy"
        if self.rooms is not None and self.free_room(starts) is None:
            return "no_room"
        return None

    def _slot(self, agenda: Agenda, starts: Seconds) -> Slot:
        session = agenda.sessions.get(starts)
        if session is not None:
            return Slot(starts, agenda.worker.id, session.finishes, session.seats_left)
        return Slot(starts, agenda.worker.id, starts + self.duration, self.service.terms.capacity)

    def claim(self, starts: Seconds) -> Span:
        """The time that a booking occupies: with its buffers."""
        terms = self.service.terms
        return (
            starts - terms.buffer_before_minutes * 60,
            starts + self.duration + terms.buffer_after_minutes * 60,
        )

    def free_room(self, starts: Seconds) -> SubjectNo | None:
        """The free room with the lowest number."""
        claim = self.claim(starts)
        rooms = self.rooms or {}
        return next((no for no, busy in sorted(rooms.items()) if not overlaps(busy, *claim)), None)

    def expired_sessions(self, nos: Collection[SubjectNo], span: Span) -> set[SessionId]:
        """The sessions of expired holds that still occupy these subjects' time in a span."""
        return {
            hold.session_id
            for hold in self.expired_holds
            if hold.subject_no in nos and hold.span[0] < span[1] and hold.span[1] > span[0]
        }

    def with_claims(self, claims: Mapping[SubjectNo, Sequence[Span]]) -> "ServiceSchedule":
        """The schedule after these subjects' time was claimed, too."""
        if not any(agenda.worker.no in claims for agenda in self.agendas) and not (
            self.rooms and claims.keys() & self.rooms.keys()
        ):
            return self
        agendas = [
            agenda.with_claims(claims[agenda.worker.no]) if agenda.worker.no in claims else agenda
            for agenda in self.agendas
        ]
        rooms = self.rooms and {no: merge([*busy, *claims.get(no, ())]) for no, busy in self.rooms.items()}
        return replace(self, agendas=agendas, rooms=rooms)

    @property
    def duration(self) -> Seconds:
        return self.service.terms.duration_minutes * 60

    @property
    def step(self) -> Seconds:
        return self.service.terms.slot_step_minutes * 60

    @property
    def earliest(self) -> Seconds:
        """The first start that respects the notice, which is elapsed time: clock changes do not matter."""
        return self.now + self.service.terms.min_notice_minutes * 60

    def latest(self, agenda: Agenda) -> Seconds:
        """Starts are before this. The horizon is in calendar days of the worker, to the same local time."""
        return days_later(agenda.worker.time_zone, self.now, self.service.terms.horizon_days) + 1


def nearest(slots: Iterable[Slot], to: Seconds, *, limit: int) -> list[Slot]:
    """The slots that start nearest to a moment, sorted; of two at the same distance, the earlier."""
    by_distance = sorted(slots, key=lambda slot: (abs(slot.starts - to), slot))
    return sorted(by_distance[:limit])


def least_booked(agendas: Iterable[Agenda]) -> Agenda:
    """The agenda with the least booked time; of equals, the one that has been idle longest."""
    return min(agendas, key=_load)


def least_booked_first(agendas: Iterable[Agenda]) -> list[Agenda]:
    return sorted(agendas, key=_load)


def _load(agenda: Agenda) -> tuple[Seconds, Seconds, SubjectNo]:
    return agenda.booked_seconds, agenda.idle_since, agenda.worker.no


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDay:
    """The shifts that overlap a local day, whole."""

    day: date
    shifts: list[Span]
    closed_by: ClosedBy | Literal["clocks"] | None
    holiday: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Details of one conflict; each kind of conflict has its own fields."""

    earliest: Seconds | None = None
    latest: Seconds | None = None
    day: LocalDay | None = None
    # The grid points before and after.
    before: Seconds | None = None
    after: Seconds | None = None


def for_clients(details: Details) -> Details:
    """Without the worker's hours, and without grid points, which begin with a shift."""
    return Details(earliest=details.earliest, latest=details.latest)


@dataclass(frozen=True, slots=True)
class ClockNote:
    """Clocks at the worker's place skip or repeat this local time."""

    code: Literal["clocks_skip", "clocks_repeat"]
    local: datetime
    moments: tuple[Seconds, ...]


def details_of(
    conflict: Conflict, schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, *, language: str
) -> Details:
    """For operators and the worker. Without the bookings that are in the way."""
    describe = _DETAILS.get(conflict)
    return describe(schedule, agenda, starts, language) if describe else Details()


def _too_soon(schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, language: str) -> Details:
    return Details(earliest=schedule.earliest)


def _beyond_horizon(schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, language: str) -> Details:
    return Details(latest=schedule.latest(agenda) - 1)


def _outside_hours(schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, language: str) -> Details:
    hours, zone_name = agenda.hours, agenda.worker.time_zone
    day = local_time(zone_name, starts).date()
    shifts = hours.shifts((epoch_of(zone_name, day, 0), epoch_of(zone_name, day, MINUTES_A_DAY)))
    closed_by = hours.closed_by(day)
    holiday = hours.holidays and closed_by == "holiday" and holiday_on(hours.holidays, day, language)
    return Details(
        day=LocalDay(
            day=day,
            shifts=shifts,
            closed_by="clocks" if closed_by is None and not shifts else closed_by,
            holiday=holiday or None,
        )
    )


def _off_grid(schedule: ServiceSchedule, agenda: Agenda, starts: Seconds, language: str) -> Details:
    def fits(point: Seconds) -> bool:
        return covers(agenda.open_hours, point, point + schedule.duration)

    before = agenda.grid((starts - DAY, starts), schedule.step, backwards=True)
    after = agenda.grid((starts, starts + DAY), schedule.step)
    return Details(before=next(filter(fits, before), None), after=next(filter(fits, after), None))


_DETAILS: Mapping[Conflict, Callable[[ServiceSchedule, Agenda, Seconds, str], Details]] = {
    "too_soon": _too_soon,
    "beyond_horizon": _beyond_horizon,
    "outside_hours": _outside_hours,
    "off_grid": _off_grid,
}


def clock_note(time_zone: str, starts: Seconds, requested: datetime) -> ClockNote | None:
    """A note if clocks there repeat the time, or if the `requested` local time is one that they skip."""
    local = requested.replace(tzinfo=None)
    if is_skipped(time_zone, local) and starts in moments_of(time_zone, local):
        return ClockNote("clocks_skip", local, (starts,))
    shown = local_time(time_zone, starts).replace(tzinfo=None)
    moments = moments_of(time_zone, shown)
    return ClockNote("clocks_repeat", shown, moments) if len(moments) > 1 else None
