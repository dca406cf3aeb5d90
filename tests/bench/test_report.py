"""The tables of a run, with the figures of an earlier one beside them."""

from pathlib import Path

import pytest
from rich.table import Table

from bench.measurement import Delay, Rate, Result, Row
from bench.report import Record, print_record, record_of


class NoLoad:
    def per_second(self, *, seconds: int, connections: int, folder: Path) -> float:
        return 1.0


def row(name: str, against: str = "bare", **changes: object) -> Row:
    return Row(name, against, 0.5, lambda: (NoLoad(), NoLoad()), **changes)  # type: ignore[arg-type]


def result(of: Row, per_second: float, **cores: float) -> Result:
    return Result.of(of, [Rate(per_second, cores)], [Rate(1000, {"API": 1.0})])


def run(*found: Result | Delay | Table) -> Record:
    results = [one for one in found if isinstance(one, Result)]
    figures = [one for one in found if not isinstance(one, Result)]
    return record_of(results, figures, rounds=1, seconds=2)


def lines(record: Record, earlier: Record | None, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_record(record, earlier, as_markdown=True)
    return capsys.readouterr().out.splitlines()


def test_earlier_ratio_and_rate_stand_beside_new_ones(capsys: pytest.CaptureFixture[str]) -> None:
    printed = lines(run(result(row("accept"), 700)), run(result(row("accept"), 300)), capsys)
    assert "| accept | bare | >= 0.5 | 0.30 | 0.70 | 0.70-0.70 | 300 | 700 | 1,000 |" in printed


def test_ratio_to_another_baseline_is_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    before = run(result(row("accept", "another"), 300))
    printed = lines(run(result(row("accept"), 700)), before, capsys)
    assert "| accept | bare | >= 0.5 | 0.70 | 0.70-0.70 | 300 | 700 | 1,000 |" in printed


def test_processor_time_is_per_request(capsys: pytest.CaptureFixture[str]) -> None:
    now, before = (run(result(row("accept"), 500, API=cores, Redis=0.01)) for cores in (0.2, 0.5))
    printed = lines(now, before, capsys)
    assert "| accept | 1,000 -> 400 | 20 -> 20 |" in printed


def test_growth_has_its_own_table_and_the_cost_of_its_baseline(capsys: pytest.CaptureFixture[str]) -> None:
    grown = result(row("accepts, many rides", "few rides", group="growth"), 900, API=0.9)
    printed = lines(run(grown), None, capsys)
    assert "| accepts, many rides | few rides | >= 0.5 | 0.90 | 0.90-0.90 | 900 | 1,000 |" in printed
    assert "| accepts, many rides: few rides | 1,000 |" in printed


def test_delay_measured_twice_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = Delay("accept", 60, 5, 50, 10, 400.0), Delay("accept", 60, 6, 70, 10, 400.0)
    printed = lines(run(first, second), run(Delay("accept", 60, 9, 120)), capsys)
    assert [line for line in printed if line.startswith("| accept")] == [
        "| accept | 400 | < 10 | 9.0 | 5.0 | < 60 | 120.0 | 50.0 |"
    ]


def test_other_tables_are_stored_without_colours(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("server", "megabytes", title="Memory")
    table.add_row("API", "[green]120.0[/]")
    assert lines(run(table), None, capsys)[-3:] == ["| --- | --- |", "| API | 120.0 |", ""]
