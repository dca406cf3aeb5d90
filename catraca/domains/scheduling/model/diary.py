"""What can be booked when. One rule, told in two ways: all that is offered, and why a time is not. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from heapq import merge as in_order
from itertools import groupby
from typing import Literal, NamedTuple

from catraca.domains.scheduling.model.agendas import Service, SessionId, SubjectId, SubjectNo, Worker
from catraca.domains.scheduling.model.hours import Hours
from catraca.domains.scheduling.model.spans import (
    ALWAYS,
    Seconds,
    Span,
    covers,
    intersect,
    merge,
    subtract,
    touches,
)
from catraca.domains.scheduling.model.zones import days_later

Fault = Literal["too_soon", "beyond_horizon", "outside_hours", "off_grid", "busy", "full", "no_room"]
# Somebody else was faster; without them it would be offered.
TAKEN: frozenset[Fault] = frozenset({"busy", "full", "no_room"})

# Whose time, and in which session.
Lapsed = tuple[SubjectNo, Span, SessionId]


class Slot(NamedTuple):
    """In the order in which slots are shown."""

    starts: Seconds
    worker_id: SubjectId
    ends: Seconds
    seats_left: int


@dataclass(frozen=True, slots=True)
class Session:
    """A time of this service that has clients already."""

    id: SessionId
    # As they were when it was first booked: the service may be another by now.
    finishes: Seconds
    capacity: int
    seats_taken: int

    @property
    def seats_left(self) -> int:
        return self.capacity - self.seats_taken


@dataclass(frozen=True)
class Agenda:
    """One worker's time within the stretch that is looked at."""

    worker: Worker
    hours: Hours
    within: Span
    # In order, without overlaps.
    busy: Sequence[Span] = ()
    # This service's sessions that others can join, by when they begin.
    sessions: Mapping[Seconds, Session] = field(default_factory=dict[Seconds, Session])
    # How much of it is booked, and until when the last client before the moment in question was there.
    booked: Seconds = 0
    idle_since: Seconds = 0

    @cached_property
    def shifts(self) -> list[Span]:
        return self.hours.shifts(self.within)

    @cached_property
    def open_hours(self) -> list[Span]:
        return merge(self.shifts)

    @cached_property
    def free(self) -> list[Span]:
        """What is worked and not taken."""
        return subtract(self.open_hours, self.busy)

    def grid(self, within: Span, step: Seconds, *, backwards: bool = False) -> Iterator[Seconds]:
        """The points of all grids in there, in order or from the last to the first, each once."""
        here = [shift for shift in self.shifts if shift[0] < within[1] and shift[1] > within[0]]
        each = [_points(shift, within, step) for shift in here]
        points = in_order(*map(reversed, each), reverse=True) if backwards else in_order(*each)
        return (point for point, _ in groupby(points))


def _points(shift: Span, within: Span, step: Seconds) -> range:
    before = max(0, within[0] - shift[0])
    return range(shift[0] + -(-before // step) * step, min(shift[1], within[1]), step)


@dataclass(frozen=True)
class Diary:
    """A service, whoever does it, and what time is taken, as of one moment."""

    service: Service
    agendas: Sequence[Agenda]
    # What is taken of each room the service can be done in; None: it needs none.
    rooms: Mapping[SubjectNo, Sequence[Span]] | None
    now: Seconds
    # Holds that are over and not ended yet.
    lapsed: Sequence[Lapsed] = ()

    def slots(self, within: Span) -> Iterator[Slot]:
        """What is offered with a start in there, in order; found as it is asked for."""
        return in_order(*(self._slots_of(agenda, within) for agenda in self.agendas))

    def slots_backwards(self, within: Span) -> Iterator[Slot]:
        """The same from the last time to the first; at one time still worker by worker."""
        each = (self._slots_of(agenda, within, backwards=True) for agenda in self.agendas)
        return in_order(*each, key=lambda slot: (-slot.starts, slot.worker_id))

    def _slots_of(self, agenda: Agenda, within: Span, *, backwards: bool = False) -> Iterator[Slot]:
        first, last = max(within[0], self.earliest), min(within[1], self.latest(agenda))
        spans = self._possible_starts(agenda, (first, last))
        for span in reversed(spans) if backwards else spans:
            for starts in agenda.grid(span, self.step, backwards=backwards):
                yield self._slot(agenda, starts)

    def _possible_starts(self, agenda: Agenda, within: Span) -> list[Span]:
        """When it could begin were there no grid: with the hours around it, and nobody in its way."""
        worked = merge((start, end - self.duration + 1) for start, end in agenda.open_hours)
        blocked = self._blocked(agenda.busy)
        if self._without_room:
            blocked = merge([*blocked, *self._without_room])
        possible = intersect(worked, [within])
        alone = subtract(possible, blocked)
        if not agenda.sessions:
            return alone
        joined = [
            (begins, begins + 1) for begins, session in agenda.sessions.items() if session.seats_left > 0
        ]
        return merge([*alone, *intersect(possible, sorted(joined))])

    @cached_property
    def _without_room(self) -> list[Span]:
        """The starts for which every room is taken; all of them, when it needs one and there is none."""
        if self.rooms is None:
            return []
        return reduce(intersect, map(self._blocked, self.rooms.values()), [ALWAYS])

    def _blocked(self, busy: Iterable[Span]) -> list[Span]:
        """The starts that would run into these."""
        terms = self.service.terms
        before = self.duration + terms.buffer_after_minutes * 60 - 1
        return merge((start - before, end + terms.buffer_before_minutes * 60) for start, end in busy)

    def faults(self, agenda: Agenda, starts: Seconds) -> list[Fault]:
        """Why this time is not offered; nothing when it is."""
        found: list[Fault] = []
        if starts < self.earliest:
            found.append("too_soon")
        if starts >= self.latest(agenda):
            found.append("beyond_horizon")
        # Only those around it: of many workers, all that were read would be many.
        shifts = agenda.hours.shifts((starts, starts + self.duration))
        if not covers(merge(shifts), starts, starts + self.duration):
            found.append("outside_hours")
        elif not any(start <= starts and (starts - start) % self.step == 0 for start, _ in shifts):
            found.append("off_grid")
        taken = self._taken(agenda, starts)
        return [*found, taken] if taken else found

    def _taken(self, agenda: Agenda, starts: Seconds) -> Fault | None:
        session = agenda.sessions.get(starts)
        if session is not None:
            return None if session.seats_left > 0 else "full"
        if touches(agenda.busy, *self.claim(starts)):
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
        """What a booking takes: with what is needed before and after."""
        terms = self.service.terms
        return (
            starts - terms.buffer_before_minutes * 60,
            starts + self.duration + terms.buffer_after_minutes * 60,
        )

    def free_room(self, starts: Seconds) -> SubjectNo | None:
        claim = self.claim(starts)
        rooms = self.rooms or {}
        return next((no for no, busy in sorted(rooms.items()) if not touches(busy, *claim)), None)

    def lapsed_in(self, nos: Collection[SubjectNo], span: Span) -> set[SessionId]:
        """Which of the holds that are over still stand in the way there."""
        return {
            session_id
            for no, (start, end), session_id in self.lapsed
            if no in nos and start < span[1] and end > span[0]
        }

    @property
    def duration(self) -> Seconds:
        return self.service.terms.duration_minutes * 60

    @property
    def step(self) -> Seconds:
        return self.service.terms.slot_step_minutes * 60

    @property
    def earliest(self) -> Seconds:
        """Notice is time that passes, whatever clocks do."""
        return self.now + self.service.terms.min_notice_minutes * 60

    def latest(self, agenda: Agenda) -> Seconds:
        """Days ahead are days of the worker's calendar: after the same time of the last, nothing begins."""
        return days_later(agenda.worker.time_zone, self.now, self.service.terms.horizon_days) + 1


def nearest(slots: Iterable[Slot], to: Seconds, *, limit: int) -> list[Slot]:
    """The slots that begin nearest to a moment, in their order; of two as near, the earlier."""
    by_distance = sorted(slots, key=lambda slot: (abs(slot.starts - to), slot))
    return sorted(by_distance[:limit])


def fairest(agendas: Iterable[Agenda]) -> Agenda:
    """Whoever has the least booked in the stretch looked at; then whoever has been idle the longest."""
    return min(agendas, key=lambda agenda: (agenda.booked, agenda.idle_since, agenda.worker.no))
