"""Dead letters as a person reads them on a terminal. What strangers wrote is shown, never obeyed."""

import json
from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from catraca.domains.dead_letters import Group, ListedLetter, OpenLetter, Outcome
from catraca.domains.dead_letters.schemas import BodyOut, OpenLetterOut

STATES = {"waiting": "yellow", "replayed": "green", "discarded": "dim"}


def print_groups(groups: Sequence[Group]) -> None:
    console = Console(highlight=False)
    if not groups:
        console.print("No dead letters wait.", style="green")
        return
    table = Table("queue", "reason", "count", "oldest", "newest")
    for group in groups:
        count = Text(str(group.count), "bold yellow", justify="right")
        table.add_row(
            visible(group.queue),
            visible(group.reason),
            count,
            _moment(group.oldest_at),
            _moment(group.newest_at),
        )
    console.print(table)


def print_letters(letters: Sequence[ListedLetter], *, more: bool) -> None:
    console = Console(highlight=False)
    if not letters:
        console.print("No such letters.")
        return
    table = Table()
    table.add_column("id", no_wrap=True)
    for heading in ("queue", "reason", "key", "died", "times", "bytes", "state"):
        table.add_column(heading, overflow="fold")
    for one in letters:
        table.add_row(
            str(one.id),
            visible(one.queue),
            visible(one.reason),
            visible(one.key),
            _moment(one.died_at),
            str(one.times),
            str(one.size_bytes),
            Text(one.state, STATES[one.state]),
        )
    console.print(table)
    if more:
        console.print(f"There are more: --after {letters[-1].id}", style="dim", soft_wrap=True)


def print_letter(letter: OpenLetter) -> None:
    console = Console(highlight=False)
    shown = OpenLetterOut.of_open(letter).model_dump(mode="json")
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
    """How many, what about the others, and how long it takes."""
    parts = [f"{outcome.done} of {outcome.matched} letters"]
    if outcome.seconds >= 1:
        parts.append(f"leaving over {outcome.seconds:.0f} s")
    if outcome.refused:
        parts.append(f"{outcome.refused} cannot be replayed (no JSON, or their queue is gone)")
    if outcome.left:
        parts.append(f"{outcome.left} left for another time")
    return "; ".join(parts)


def visible(text: str) -> Text:
    """Without what a terminal would obey."""
    return Text("".join(sign if sign.isprintable() else "\ufffd" for sign in text))


def _moment(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
