"""Run the benchmarks: `python -m bench [--only WORDS] [--rounds N] [--seconds N] [--json FILE]`."""

import argparse
import asyncio
import json
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.delays import extras
from bench.growth.rows import growth_rows
from bench.measurement import Delay, Done, Rate, Result, Row
from bench.processor import take_noted
from bench.report import Record, print_record, record_of, write_record
from bench.rides.accepts import AcceptLoad
from bench.rides.parts import parts_table
from bench.rows import rows
from bench.server_processes import SECRET, serve
from bench.stage import CONNECTIONS, Stage
from catraca.platform.database.migrations import migrate
from tests.servers import Stack, private_folder, start_embedded, until


async def main() -> None:
    options = _options()
    earlier = json.loads(options.against.read_text()) if options.against else None
    if options.show:
        record = json.loads(options.show.read_text())
    else:
        record = await _run(options)
        write_record(record, options.json)
    print_record(record, earlier, as_markdown=options.markdown)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Ratios taken in one run.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each pair is measured")
    parser.add_argument("--seconds", type=int, default=3, help="how long each measurement takes")
    parser.add_argument("--only", default="", metavar="WORDS", help="rows whose name has these words")
    parser.add_argument("--parts", action="store_true", help="also tell where the time of an accept goes")
    parser.add_argument("--json", type=Path, default=Path("var/bench.json"), help="where the figures go")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print this earlier run, measure nothing")
    parser.add_argument("--against", type=Path, metavar="FILE", help="print figures of this run beside")
    parser.add_argument("--markdown", action="store_true", help="print tables for docs/evidence.md")
    return parser.parse_args()


async def _run(options: argparse.Namespace) -> Record:
    folder = private_folder()
    stack, stop = await start_embedded(folder)
    try:
        await migrate(stack.database_url)
        # In one thread: loads run event loops of their own, and servers end with the thread that starts them.
        return await asyncio.to_thread(_measure, stack, options)
    finally:
        await stop()
        shutil.rmtree(folder, ignore_errors=True)


def _measure(stack: Stack, options: argparse.Namespace) -> Record:
    results: list[Result] = []
    figures: list[Delay | Table] = []
    for kind in (rows, growth_rows):
        # The servers of a kind end before those of the next one start.
        with ExitStack() as running:
            stage = Stage(stack, running)
            chosen = [row for row in kind(stage) if options.only in row.name]
            for row, done in _measure_rows(chosen, options, stage).items():
                results.append(done.result)
                figures += row.then(done)
    with ExitStack() as running:
        stage = Stage(stack, running)
        for extra in extras(stage):
            if extra.is_chosen(options.only):
                figures += extra.measure()
        if options.parts:
            figures.append(_parts(stage, options.seconds))
    return record_of(results, figures, rounds=options.rounds, seconds=options.seconds)


def _measure_rows(chosen: Sequence[Row], options: argparse.Namespace, stage: Stage) -> dict[Row, Done]:
    """Measure load and baseline in turns, so that a slow minute of the machine affects both."""
    loads = {row: row.loads() for row in chosen}
    rates: dict[Row, tuple[list[Rate], list[Rate]]] = {row: ([], []) for row in chosen}
    turns = [row for _ in range(options.rounds) for row in chosen]
    console = Console(stderr=True)
    for row in track(turns, description="Measuring", console=console):
        if row not in rates:
            continue
        try:
            for load, found in zip(loads[row], rates[row], strict=True):
                per_second = load.per_second(
                    seconds=options.seconds, connections=CONNECTIONS, folder=stage.folder
                )
                found.append(Rate(per_second, take_noted()))
        except RuntimeError as error:  # the row is left out, so that the others are not lost
            console.print(f"[red]{row.name}: {error}")
            del rates[row]
    return {row: Done(Result.of(row, *rates[row]), *loads[row]) for row in rates}


def _parts(stage: Stage, seconds: int) -> Table:
    metrics = stage.folder / "metrics"
    metrics.mkdir()
    server = serve(stage.stack, stage.running, "bench.rides.parts", PROMETHEUS_MULTIPROC_DIR=str(metrics))
    asyncio.run(until(server.answers))
    load = AcceptLoad(server.url, stage.stack.database_url, SECRET)
    return parts_table(load, seconds=seconds, connections=CONNECTIONS, folder=stage.folder)


if __name__ == "__main__":
    asyncio.run(main())
