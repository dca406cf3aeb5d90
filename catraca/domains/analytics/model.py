"""Demand as values: what an event adds to the figures of a place and an hour, and when searches fail."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NewType, cast
from uuid import UUID

from h3.api import basic_int

from catraca.events import (
    MatchingTimeout,
    NoDriversAvailable,
    RideMatched,
    RideReassigning,
    RideRequested,
)
from catraca.events.rides import Point
from catraca.platform.event import Event

h3 = cast(Any, basic_int)  # it has no types

Cell = NewType("Cell", int)
Region = NewType("Region", int)

# About five square kilometres, and 250.
CELL_RESOLUTION: Final = 7
REGION_RESOLUTION: Final = 5
# How precisely events tell where a ride begins; requests are taken no more precisely than the others.
ROUGH_DIGITS: Final = 3
# A year, and a month to compare it with.
KEPT: Final = timedelta(days=400)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
MILLISECOND: Final = timedelta(milliseconds=1)
# An H3 index ends in 15 digits of three bits, one for each resolution; those beyond its own are all ones.
DIGIT_BITS: Final = 3
RESOLUTIONS: Final = 15
RESOLUTION_SHIFT: Final = 52

What = Literal["requests", "reassigned", "matched", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What one event adds to the figures of a place."""

    what: What
    at: datetime
    cell: Cell
    # From the beginning of the search to the match.
    match_ms: int = 0


@dataclass(frozen=True, slots=True)
class Happening:
    """One event: its key, and what it adds, if anything beside that it happened."""

    key: str
    fact: Fact | None


@dataclass(slots=True)
class Counts:
    """Sums of facts: the same in whatever order they come."""

    requests: int = 0
    reassigned: int = 0
    matched: int = 0
    failed: int = 0
    match_sum_ms: int = 0
    match_max_ms: int = 0

    def add(self, fact: Fact) -> None:
        setattr(self, fact.what, getattr(self, fact.what) + 1)
        self.match_sum_ms += fact.match_ms
        self.match_max_ms = max(self.match_max_ms, fact.match_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """More than `percent` of at least `minimum` searches that ended in a region within `window` failed."""

    percent: float
    window: timedelta
    minimum: int


@dataclass(frozen=True, slots=True, order=True)
class Window:
    region: Region
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    id: UUID
    window: Window
    matched: int
    failed: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The figures of one cell and hour."""

    hour: datetime
    cell: Cell
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandFilter:
    """`starts_at` is the first hour that counts, `ends_at` the first that does not."""

    starts_at: datetime | None = None
    ends_at: datetime | None = None
    cells: tuple[Cell, Cell] | None = None
    failed_only: bool = False


def fact_of(event: Event) -> Fact | None:
    """What the event adds, at the moment it tells of; None for those that are only counted."""
    match event:
        case RideRequested():
            return Fact(what="requests", at=event.timestamp, cell=cell_of(event.pickup))
        case RideReassigning():
            return Fact(what="reassigned", at=event.timestamp, cell=cell_of(event.pickup))
        case RideMatched():
            return Fact(
                what="matched",
                at=event.matched_at,
                cell=cell_of(event.pickup),
                match_ms=max(0, (event.matched_at - event.started_at) // MILLISECOND),
            )
        case MatchingTimeout() | NoDriversAvailable():
            return Fact(what="failed", at=event.timeout_at, cell=cell_of(event.pickup))
        case _:
            return None


def cell_of(point: Point) -> Cell:
    lat, lng = round(point.lat, ROUGH_DIGITS), round(point.lng, ROUGH_DIGITS)
    return Cell(h3.latlng_to_cell(lat, lng, CELL_RESOLUTION))


def region_of(cell: Cell) -> Region:
    return Region(h3.cell_to_parent(cell, REGION_RESOLUTION))


def center_of(place: Cell | Region) -> Point:
    lat, lng = h3.cell_to_latlng(place)
    return Point(round(lat, 5), round(lng, 5))


def name_of(place: Cell | Region) -> str:
    """As H3 writes it everywhere."""
    return f"{place:x}"


def cells_within(name: str) -> tuple[Cell, Cell]:
    """The lowest and the highest cell of ours that can lie in this one, which is as large or larger."""
    number = int(name, 16)
    own = number >> RESOLUTION_SHIFT & 0xF
    inner = sum(7 << DIGIT_BITS * (RESOLUTIONS - digit) for digit in range(own + 1, CELL_RESOLUTION + 1))
    number += CELL_RESOLUTION - own << RESOLUTION_SHIFT
    return Cell(number & ~inner), Cell(number | inner)


def by_hour(facts: Iterable[Fact]) -> Mapping[tuple[datetime, Cell], Counts]:
    """In the order of their keys, in which everybody takes the rows."""
    sums: dict[tuple[datetime, Cell], Counts] = {}
    for fact in facts:
        sums.setdefault((start_of(fact.at, HOUR), fact.cell), Counts()).add(fact)
    return dict(sorted(sums.items()))


def by_window(facts: Iterable[Fact], length: timedelta) -> Mapping[Window, Counts]:
    """Only of searches that ended; in the order of their keys, in which everybody takes the rows."""
    sums: dict[Window, Counts] = {}
    for fact in facts:
        if fact.what in ("matched", "failed"):
            starts_at = start_of(fact.at, length)
            window = Window(region_of(fact.cell), starts_at, starts_at + length)
            sums.setdefault(window, Counts()).add(fact)
    return dict(sorted(sums.items()))


def start_of(moment: datetime, length: timedelta) -> datetime:
    """When the time of this length began in which the moment lies; they follow each other since 1970."""
    return EPOCH + (moment - EPOCH) // length * length


def percent_failed(*, matched: int, failed: int) -> float | None:
    """Of the searches that ended; None if none did."""
    ended = matched + failed
    return round(100 * failed / ended, 1) if ended else None
