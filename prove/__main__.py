"""Run the storms: `python -m prove [STORM ...] [--rounds N] [--percent N] [--stack NAME] [--restart]`.

Finished rounds are stored in `var/prove.json`, so an interrupted run continues where it stopped.
"""

import argparse
import asyncio
import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from catraca.platform.database.migrations import migrate
from catraca.roles.parts import Parts, open_parts
from prove.storms import STORMS, Storm
from tests.conftest import settings_for
from tests.servers import private_folder, start_debian, start_embedded

LEDGER = Path("var/prove.json")
WHOLE_PERCENT = 100
STACKS = {"embedded": start_embedded, "servers": start_debian}
console = Console()


@dataclass(slots=True)
class Tally:
    """The rounds of one storm on one stack so far."""

    rounds: int = 0
    seconds: float = 0.0
    broken: str = ""
    # The rounds' reports.
    told: list[str] = field(default_factory=list)


async def main() -> int:
    options = _options()
    tallies = {} if options.restart else _read_ledger()
    for stack_name, start in STACKS.items():
        if options.stack not in (None, stack_name):
            continue
        folder = private_folder()
        stack, stop = await start(folder)
        try:
            await migrate(stack.database_url)
            async with open_parts(settings_for(stack)) as parts:
                for storm in [storm for storm in options.storms if stack_name in storm.stacks]:
                    tally = tallies.setdefault(_title(storm, stack_name, options.percent), Tally())
                    await _weather(storm, options, tally, parts, tallies)
        finally:
            await stop()
            shutil.rmtree(folder, ignore_errors=True)
    _report(tallies)
    return 1 if any(tally.broken for tally in tallies.values()) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make prove", description="The long storms, at full size.")
    parser.add_argument("storms", nargs="*", metavar="STORM", help=f"one of: {', '.join(STORMS)}")
    parser.add_argument("--rounds", type=int, help="fewer or more rounds than the full size")
    parser.add_argument(
        "--percent", type=float, default=WHOLE_PERCENT, help="of the size of a round, where it has one"
    )
    parser.add_argument("--stack", choices=STACKS, help="only on this one; without it on both")
    parser.add_argument("--restart", action="store_true", help="forget what was done before")
    options = parser.parse_args()
    unknown = [name for name in options.storms if name not in STORMS]
    if unknown:
        parser.error(f"no such storm: {', '.join(unknown)}; there are: {', '.join(STORMS)}")
    options.storms = [STORMS[name] for name in options.storms or STORMS]
    return options


def _title(storm: Storm, stack_name: str, percent: float) -> str:
    """The storm's name with its size: a smaller run does not count as the whole."""
    size = f", {percent:g} %" if storm.has_size and percent != WHOLE_PERCENT else ""
    return f"{storm.name} on {stack_name}{size}"


async def _weather(
    storm: Storm, options: argparse.Namespace, tally: Tally, parts: Parts, tallies: dict[str, Tally]
) -> None:
    rounds = options.rounds or storm.rounds
    size = {"share": options.percent / WHOLE_PERCENT} if storm.has_size else {}
    with console.status(storm.name) as status:
        while tally.rounds < rounds and not tally.broken:
            began = time.monotonic()
            try:
                async with asyncio.timeout(storm.round_seconds):
                    found = await storm.run(parts, tally.rounds, **size)
            except (AssertionError, TimeoutError) as error:
                tally.broken = f"round {tally.rounds + 1}: {str(error) or type(error).__name__}"
                for note in getattr(error, "__notes__", ()):
                    _tell(storm, tally, note)
            else:
                _tell(storm, tally, found)
            tally.rounds += 1
            tally.seconds += time.monotonic() - began
            status.update(f"{storm.name}: {tally.rounds} of {rounds} rounds, {tally.seconds:.0f} s")
            _write_ledger(tallies)


def _tell(storm: Storm, tally: Tally, found: str | None) -> None:
    if found is not None:
        tally.told.append(found)
        console.print(f"{storm.name}, round {tally.rounds + 1}: {found}", highlight=False, markup=False)


def _read_ledger() -> dict[str, Tally]:
    if not LEDGER.exists():
        return {}
    return {name: Tally(**entry) for name, entry in json.loads(LEDGER.read_text()).items()}


def _write_ledger(tallies: dict[str, Tally]) -> None:
    LEDGER.parent.mkdir(parents=True, exist_ok=True)
    entries = {name: asdict(tally) for name, tally in tallies.items()}
    LEDGER.write_text(json.dumps(entries, indent=2) + "\n")


def _report(tallies: dict[str, Tally]) -> None:
    table = Table("storm", "rounds", "seconds", "found")
    for name, tally in tallies.items():
        found = f"[red]{escape(tally.broken)}[/]" if tally.broken else "[green]every promise kept[/]"
        table.add_row(name, str(tally.rounds), f"{tally.seconds:.0f}", found)
    console.print(table)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
