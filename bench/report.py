"""The results as a table and as JSON."""

import argparse
import json
import os
import platform
import statistics
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from bench.rows import Row


@dataclass(frozen=True, slots=True)
class Round:
    """One measurement of a row, with the processor cores that each process used."""

    per_second: float
    baseline_per_second: float
    cores: dict[str, float]

    def microseconds(self, process: str) -> float:
        """Processor time of this process for one of those that `per_second` counts."""
        return self.cores.get(process, 0.0) / self.per_second * 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
    name: str
    against: str
    want: float | None
    ratio: float
    lowest: float
    highest: float
    per_second: float
    baseline_per_second: float
    # Microseconds of processor time for one of those that `per_second` counts, by process.
    processor: dict[str, float]

    @classmethod
    def of(cls, row: Row, rounds: list[Round]) -> "Result":
        ratios = [one.per_second / one.baseline_per_second for one in rounds]
        return cls(
            name=row.name,
            against=row.against,
            want=row.want,
            ratio=round(statistics.median(ratios), 3),
            lowest=round(min(ratios), 3),
            highest=round(max(ratios), 3),
            per_second=round(statistics.median(one.per_second for one in rounds)),
            baseline_per_second=round(statistics.median(one.baseline_per_second for one in rounds)),
            processor={
                process: round(statistics.median(one.microseconds(process) for one in rounds), 1)
                for process in rounds[0].cores
            },
        )


@dataclass(frozen=True, slots=True)
class Delay:
    """A latency in milliseconds."""

    name: str
    # None: only the growth matters.
    want_below: float | None
    median: float
    p99: float


def report(
    results: list[Result], delays: list[Delay], options: argparse.Namespace, *, connections: int
) -> None:
    table = Table(title=f"Medians of {options.rounds} rounds, {connections} connections, one API process")
    for column in ("what", "against", "want", "ratio", "lowest-highest", "per second", "baseline"):
        table.add_column(column, justify="left" if column in ("what", "against") else "right")
    for result in results:
        verdict = "green" if result.want is None or result.ratio >= result.want else "yellow"
        table.add_row(
            result.name,
            result.against,
            "-" if result.want is None else f">= {result.want}",
            f"[{verdict}]{result.ratio:.2f}[/]",
            f"{result.lowest:.2f}-{result.highest:.2f}",
            f"{result.per_second:,.0f}",
            f"{result.baseline_per_second:,.0f}",
        )
    if results:
        Console(width=140).print(table)
    if any(result.processor for result in results):
        Console(width=140).print(_processor_table(results))
    if delays:
        Console(width=140).print(_delay_table(delays))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cpus": os.cpu_count(), "python": platform.python_version(), "system": platform.system()}
    record = {"at": datetime.now(UTC).isoformat(), "machine": machine, "rows": [asdict(r) for r in results]}
    record["delays"] = [asdict(delay) for delay in delays]
    options.json.write_text(json.dumps(record, indent=2) + "\n")


def _processor_table(results: list[Result]) -> Table:
    processes = list(dict.fromkeys(process for result in results for process in result.processor))
    table = Table(title="Processor time by process, in microseconds for one request, ping, delivery or match")
    for column in ("what", *processes):
        table.add_column(column, justify="left" if column == "what" else "right")
    for result in results:
        if result.processor:
            cells = [result.processor.get(process) for process in processes]
            table.add_row(result.name, *("-" if one is None else f"{one:,.0f}" for one in cells))
    return table


def _delay_table(delays: list[Delay]) -> Table:
    table = Table(title="Delays in milliseconds")
    for column in ("what", "want p99", "p99", "median"):
        table.add_column(column, justify="left" if column == "what" else "right")
    for delay in delays:
        want = "-" if delay.want_below is None else f"< {delay.want_below:.0f}"
        verdict = "green" if delay.want_below is None or delay.p99 < delay.want_below else "yellow"
        table.add_row(delay.name, want, f"[{verdict}]{delay.p99:.1f}[/]", f"{delay.median:.1f}")
    return table
