"""A run as JSON, and its tables: on the terminal or as Markdown, with the figures of an earlier run."""

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.measurement import Delay, Result

Record = dict[str, Any]
# The order of columns.
PROCESSES = ("API", "dispatcher", "notifier", "PostgreSQL", "Redis", "RabbitMQ")
TITLES = {
    "speed": "Rates, medians of {rounds} rounds of {seconds} s",
    "growth": "Growth: the rate with more, as a share of the rate with few",
}


def record_of(
    results: Iterable[Result], figures: Sequence[Delay | Table], *, rounds: int, seconds: int
) -> Record:
    """Return the run as it is stored."""
    # Two rows may have the same baseline, whose delay is measured twice.
    delays = {figure.name: figure for figure in reversed(figures) if isinstance(figure, Delay)}
    return {
        "at": datetime.now(UTC).isoformat(),
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.system(),
        },
        "rounds": rounds,
        "seconds": seconds,
        "rows": [asdict(result) for result in results],
        "delays": [asdict(delay) for delay in reversed(delays.values())],
        "tables": [_plain(figure) for figure in figures if isinstance(figure, Table)],
    }


def write_record(record: Record, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")


def print_record(record: Record, earlier: Record | None, *, as_markdown: bool) -> None:
    console = Console(width=None if as_markdown else 180)
    for table in _tables(record, earlier or {"rows": [], "delays": []}):
        if as_markdown:
            print(_markdown(table))
        else:
            console.print(table)


def _tables(record: Record, earlier: Record) -> list[Table]:
    tables = [
        _ratio_table(TITLES[group].format(**record), rows, _by_name(earlier["rows"]))
        for group in TITLES
        if (rows := [row for row in record["rows"] if row["group"] == group])
    ]
    if costs := _processor_by_name(record["rows"]):
        tables.append(_processor_table(costs, _processor_by_name(earlier["rows"])))
    if record["delays"]:
        tables.append(_delay_table(record["delays"], _by_name(earlier["delays"])))
    return tables + [
        _table(stored["title"], stored["columns"], stored["rows"]) for stored in record["tables"]
    ]


def _by_name(entries: Iterable[Record]) -> dict[str, Record]:
    return {entry["name"]: entry for entry in entries}


def _ratio_table(title: str, rows: Sequence[Record], earlier: Mapping[str, Record]) -> Table:
    """The ratio of an earlier run is shown if its baseline was the same."""
    cells: list[list[str]] = []
    for row in rows:
        before = earlier.get(row["name"], {})
        same = before.get("against") == row["against"]
        cells.append(
            [
                row["name"],
                row["against"],
                "-" if row["want"] is None else f">= {row['want']}",
                _number(before.get("ratio") if same else None, ".2f"),
                _judged(f"{row['ratio']:.2f}", row["want"] is None or row["ratio"] >= row["want"]),
                f"{row['lowest']:.2f}-{row['highest']:.2f}",
                _number(before.get("per_second"), ",.0f"),
                f"{row['per_second']:,.0f}",
                f"{row['baseline_per_second']:,.0f}",
            ]
        )
    columns = ("measured", "against", "want", "earlier ratio", "ratio", "lowest-highest")
    return _table(title, (*columns, "earlier per second", "per second", "baseline per second"), cells)


def _processor_by_name(rows: Iterable[Record]) -> dict[str, dict[str, float]]:
    """The processor time of what was measured; for growth also of its baseline."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        found[row["name"]] = row.get("processor", {})
        if row.get("group") == "growth":
            found[f"{row['name']}: {row['against']}"] = row["baseline_processor"]
    return {name: costs for name, costs in found.items() if costs}


def _processor_table(
    costs: Mapping[str, Mapping[str, float]], earlier: Mapping[str, Mapping[str, float]]
) -> Table:
    processes = [process for process in PROCESSES if any(process in cost for cost in costs.values())]
    cells: list[list[str]] = []
    for name, cost in costs.items():
        pairs = [(earlier.get(name, {}).get(process), cost.get(process)) for process in processes]
        cells.append([name, *(_change(before, now) for before, now in pairs)])
    title = "Processor time by process, in microseconds for one request, ping, delivery or match"
    return _table(title, ("measured", *processes), cells)


def _change(before: float | None, now: float | None) -> str:
    return _number(now, ",.0f") if before is None else f"{before:,.0f} -> {_number(now, ',.0f')}"


def _delay_table(delays: Sequence[Record], earlier: Mapping[str, Record]) -> Table:
    cells: list[list[str]] = []
    for delay in delays:
        before = earlier.get(delay["name"], {})
        cells.append(
            [
                delay["name"],
                _number(delay["per_second"], ",.0f"),
                *_delay_cells(before.get("median"), delay["median"], delay["want_median_below"]),
                *_delay_cells(before.get("p99"), delay["p99"], delay["want_below"]),
            ]
        )
    columns = ("measured", "per second", "want median", "earlier median", "median")
    return _table("Delays in milliseconds", (*columns, "want p99", "earlier p99", "p99"), cells)


def _delay_cells(before: float | None, now: float, want_below: float | None) -> list[str]:
    want = "-" if want_below is None else f"< {want_below:.0f}"
    return [want, _number(before, ".1f"), _judged(f"{now:.1f}", want_below is None or now < want_below)]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _judged(text: str, is_reached: bool) -> str:
    return f"[{'green' if is_reached else 'yellow'}]{text}[/]"


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table without the columns in which no row has a figure."""
    rows = list(rows)
    filled = [place for place in range(len(columns)) if any(row[place] != "-" for row in rows)]
    table = Table(title=title)
    for place in filled:
        table.add_column(
            columns[place], justify="left" if columns[place] in ("measured", "against") else "right"
        )
    for row in rows:
        table.add_row(*(row[place] for place in filled))
    return table


def _plain(table: Table) -> Record:
    columns = [[Text.from_markup(str(cell)).plain for cell in column.cells] for column in table.columns]
    return {
        "title": str(table.title),
        "columns": [str(column.header) for column in table.columns],
        "rows": [list(row) for row in zip(*columns, strict=True)],
    }


def _markdown(table: Table) -> str:
    plain = _plain(table)
    lines = [plain["columns"], ["---"] * len(plain["columns"]), *plain["rows"]]
    return "\n".join([f"{plain['title']}:", "", *(f"| {' | '.join(line)} |" for line in lines), ""])
