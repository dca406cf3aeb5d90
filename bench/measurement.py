"""The kinds of measurements, and their results."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from rich.table import Table


class Load(Protocol):
    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float: ...


@dataclass(frozen=True, slots=True)
class Delay:
    """A latency in milliseconds."""

    name: str
    # None: only the growth matters.
    want_below: float | None
    median: float
    p99: float
    want_median_below: float | None = None
    # Requests per second meanwhile, if they were sent at a steady pace.
    per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """`measured` as a share of `baseline`, both taken in turns within one run."""

    name: str
    against: str
    # None: measured only, without a target.
    want: float | None
    # Called if the row is chosen; starts the servers that the two loads need.
    loads: Callable[[], tuple[Load, Load]]
    # Measured after all rounds.
    then: "Callable[[Done], Sequence[Delay | Table]]" = lambda _: ()
    group: Literal["speed", "growth"] = "speed"


@dataclass(frozen=True, slots=True)
class Extra:
    """Delays or a table without a ratio."""

    is_chosen: Callable[[str], bool]
    measure: Callable[[], Sequence[Delay | Table]]


@dataclass(frozen=True, slots=True)
class Rate:
    """One measurement of a load, with the processor cores that each process used."""

    per_second: float
    cores: dict[str, float]

    def microseconds(self, process: str) -> float:
        """Processor time of this process for one of those that `per_second` counts."""
        return self.cores.get(process, 0.0) / self.per_second * 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    against: str
    group: str
    want: float | None
    ratio: float
    lowest: float
    highest: float
    per_second: float
    baseline_per_second: float
    # Microseconds of processor time for one of those that `per_second` counts, by process.
    processor: dict[str, float]
    baseline_processor: dict[str, float]

    @classmethod
    def of(cls, row: Row, measured: Sequence[Rate], baseline: Sequence[Rate]) -> "Result":
        """The rates of each round, in the same order."""
        ratios = [one.per_second / other.per_second for one, other in zip(measured, baseline, strict=True)]
        return cls(
            name=row.name,
            against=row.against,
            group=row.group,
            want=row.want,
            ratio=round(statistics.median(ratios), 3),
            lowest=round(min(ratios), 3),
            highest=round(max(ratios), 3),
            per_second=round(statistics.median(one.per_second for one in measured)),
            baseline_per_second=round(statistics.median(one.per_second for one in baseline)),
            processor=_microseconds(measured),
            baseline_processor=_microseconds(baseline),
        )


def _microseconds(rates: Sequence[Rate]) -> dict[str, float]:
    return {
        process: round(statistics.median(rate.microseconds(process) for rate in rates), 1)
        for process in sorted({name for rate in rates for name in rate.cores})
    }


@dataclass(frozen=True, slots=True)
class Done:
    """A row that has been measured, with its loads."""

    result: Result
    measured: Load
    baseline: Load
