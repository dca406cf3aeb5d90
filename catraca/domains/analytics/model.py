"""Demand as values: what an event adds to the counts of a cell and an hour, and when an alert is due."""

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

# About 5 and 250 square kilometres.
CELL_RESOLUTION: Final = 7
REGION_RESOLUTION: Final = 5
# The precision of the pickup in most events; more precise ones are rounded, so that all get the same cell.
PICKUP_DIGITS: Final = 3
# A year, and a month for comparison.
RETENTION: Final = timedelta(days=400)

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
HOUR: Final = timedelta(hours=1)
MILLISECOND: Final = timedelta(milliseconds=1)
# An H3 index ends in 15 digits of 3 bits, one per resolution; unused digits are all ones.
DIGIT_BITS: Final = 3
RESOLUTIONS: Final = 15
RESOLUTION_SHIFT: Final = 52

FactKind = Literal["requests", "reassigned", "matched", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """What one event adds to the counts of a cell."""

    kind: FactKind
    at: datetime
    cell: Cell
    # From the start of the search to the match.
    match_ms: int = 0


@dataclass(frozen=True, slots=True)
class CountedEvent:
    """An event by its key, with the fact that it adds, if any."""

    key: str
    fact: Fact | None


@dataclass(slots=True)
class Counts:
    """Sums of facts; the order of the facts does not matter."""

    requests: int = 0
    reassigned: int = 0
    matched: int = 0
    failed: int = 0
    match_sum_ms: int = 0
    match_max_ms: int = 0

    def add(self, fact: Fact) -> None:
        setattr(self, fact.kind, getattr(self, fact.kind) + 1)
        self.match_sum_ms += fact.match_ms
        self.match_max_ms = max(self.match_max_ms, fact.match_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """An alert is due if more than `percent` of at least `minimum` searches in a region and window failed."""

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
    """The counts of one cell and hour."""

    hour: datetime
    cell: Cell
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandFilter:
    """`starts_at` is inclusive, `ends_at` exclusive."""

    starts_at: datetime | None = None
    ends_at: datetime | None = None
    cells: tuple[Cell, Cell] | None = None
    failed_only: bool = False


def fact_of(event: Event) -> Fact | None:
    """What the event adds, at its own time; None for events that are only counted."""
    match event:
        case RideRequested():
            return Fact(kind="requests", at=event.timestamp, cell=cell_of(event.pickup))
        case RideReassigning():
            return Fact(kind="reassigned", at=event.timestamp, cell=cell_of(event.pickup))
        case RideMatched():
            return Fact(
                kind="matched",
                at=event.matched_at,
                cell=cell_of(event.pickup),
                match_ms=max(0, (event.matched_at - event.started_at) // MILLISECOND),
            )
        case MatchingTimeout() | NoDriversAvailable():
            return Fact(kind="failed", at=event.timeout_at, cell=cell_of(event.pickup))
        case _:
            return None


def cell_of(point: Point) -> Cell:
    lat, lng = round(point.lat, PICKUP_DIGITS), round(point.lng, PICKUP_DIGITS)
    return Cell(h3.latlng_to_cell(lat, lng, CELL_RESOLUTION))


def region_of(cell: Cell) -> Region:
    return Region(h3.cell_to_parent(cell, REGION_RESOLUTION))


def center_of(place: Cell | Region) -> Point:
    lat, lng = h3.cell_to_latlng(place)
    return Point(round(lat, 5), round(lng, 5))


def name_of(place: Cell | Region) -> str:
    """The hexadecimal name of H3."""
    return f"{place:x}"


def cells_within(name: str) -> tuple[Cell, Cell]:
    """The lowest and highest cell of resolution 7 within the named cell, which may be coarser."""
    number = int(name, 16)
    own = number >> RESOLUTION_SHIFT & 0xF
    inner = sum(7 << DIGIT_BITS * (RESOLUTIONS - digit) for digit in range(own + 1, CELL_RESOLUTION + 1))
    number += CELL_RESOLUTION - own << RESOLUTION_SHIFT
    return Cell(number & ~inner), Cell(number | inner)


def by_hour(facts: Iterable[Fact]) -> Mapping[tuple[datetime, Cell], Counts]:
    """Ordered by key: all transactions lock the rows in this order."""
    sums: dict[tuple[datetime, Cell], Counts] = {}
    for fact in facts:
        sums.setdefault((start_of(fact.at, HOUR), fact.cell), Counts()).add(fact)
    return dict(sorted(sums.items()))


def by_window(facts: Iterable[Fact], length: timedelta) -> Mapping[Window, Counts]:
    """Of ended searches only; ordered by key: all transactions lock the rows in this order."""
    sums: dict[Window, Counts] = {}
    for fact in facts:
        if fact.kind in ("matched", "failed"):
            starts_at = start_of(fact.at, length)
            window = Window(region_of(fact.cell), starts_at, starts_at + length)
            sums.setdefault(window, Counts()).add(fact)
    return dict(sorted(sums.items()))


def start_of(moment: datetime, length: timedelta) -> datetime:
    """The start of the interval of this length that contains the moment; intervals begin at 1970."""
    return EPOCH + (moment - EPOCH) // length * length


def percent_failed(*, matched: int, failed: int) -> float | None:
    """The share of failed searches; None without ended searches."""
    ended = matched + failed
    return round(100 * failed / ended, 1) if ended else None
