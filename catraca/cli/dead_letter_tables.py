"""Tables of dead letters. Foreign text is printed without control characters."""

import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from catraca.cli.terminal import local_time, visible
from catraca.domains.dead_letters.letters.model import Group, ListedLetter, OpenLetter
from catraca.domains.dead_letters.letters.schemas import BodyOut, OpenLetterOut
from catraca.domains.dead_letters.replay.model import Outcome

STATES = {"waiting": "yellow", "replayed": "green", "discarded": "dim"}


def print_groups(groups: Sequence[Group]) -> None:
    console = Console(highlight=False)
    if not groups:
        console.print("No dead letters are waiting.", style="green")
        return
    table = Table("queue", "reason", "count", "oldest", "newest")
    for group in groups:
        count = Text(str(group.count), "bold yellow", justify="right")
        table.add_row(
            visible(group.queue),
            visible(group.reason),
            count,
            local_time(group.oldest_at),
            local_time(group.newest_at),
        )
    console.print(table)


def print_letters(letters: Sequence[ListedLetter], *, more: bool) -> None:
    console = Console(highlight=False)
    if not letters:
        console.print("No letters match.")
        return
    table = Table()
    table.add_column("id", no_wrap=True)
    for heading in ("queue", "reason", "key", "died", "times", "bytes", "state"):
        table.add_column(heading, overflow="fold")
    for letter in letters:
        table.add_row(
            str(letter.id),
            visible(letter.queue),
            visible(letter.reason),
            visible(letter.key),
            local_time(letter.died_at),
            str(letter.times),
            str(letter.size_bytes),
            Text(letter.state, STATES[letter.state]),
        )
    console.print(table)
    if more:
        console.print(f"More: --after {letters[-1].id}", style="dim", soft_wrap=True)


def print_letter(letter: OpenLetter) -> None:
    console = Console(highlight=False)
    shown = OpenLetterOut.of(letter).model_dump(mode="json")
    for name, value in shown.items():
        if name not in ("headers", "body", "original_body") and value is not None:
            console.print(Text.assemble((f"{name:>16}  ", "bold"), visible(str(value))), soft_wrap=True)
    for name, value in shown["headers"].items():
        console.print(Text.assemble((f"{name:>16}  ", "dim"), visible(str(value))), soft_wrap=True)
    _print_body(console, "body", letter.body)
    if letter.original_body is not None:
        _print_body(console, "original body", letter.original_body)


def _print_body(console: Console, name: str, body: bytes) -> None:
    shown = BodyOut.of(body)
    console.print(Text(f"\n{name} ({shown.form}, {len(body)} bytes)", "bold"))
    if shown.form == "json":
        lines = json.dumps(shown.value, indent=2, ensure_ascii=False)
    else:
        lines = str(shown.value)
    console.print(Text("\n".join(visible(line).plain for line in lines.split("\n"))), soft_wrap=True)


def summary(outcome: Outcome) -> str:
    """The counts of an outcome in words."""
    parts = [f"{outcome.done} of {outcome.matched} letters"]
    if outcome.seconds >= 1:
        parts.append(f"sent over {outcome.seconds:.0f} s")
    if outcome.refused:
        parts.append(f"{outcome.refused} cannot be replayed (not JSON, or the queue is gone)")
    if outcome.left:
        parts.append(f"{outcome.left} left for another run")
    return "; ".join(parts)
