"""`catraca audit`: what the API's route answers, for whoever sits at the machine."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from catraca.cli.dead_letter_work import moment_of, run
from catraca.cli.failures import REFUSED, fail

if TYPE_CHECKING:
    from catraca.domains.audit import Entry


def audit(
    subject_kind: Annotated[str | None, typer.Option(help="Done to such subjects: ride, user, ...")] = None,
    subject_id: Annotated[str | None, typer.Option(help="Done to this one.")] = None,
    action: Annotated[
        str | None, typer.Option(help="One action, or all that begin alike: ride.matched, 'ride.*'.")
    ] = None,
    actor_id: Annotated[UUID | None, typer.Option(help="Done by this person.")] = None,
    starts_at: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Such as 2031-05-30T14:00; local time.")
    ] = None,
    ends_at: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Such as 2031-05-30T14:00Z.")
    ] = None,
    before: Annotated[UUID | None, typer.Option(help="Go on behind this line.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as the API answers it.")] = False,
) -> None:
    """Tell who did what to which subject and when, and what happened, the newest first.

    Example: `catraca audit --action 'ride.*' --subject-id ID`
    """
    from catraca.domains.audit import ACTION_PATTERN, Filter, find_entries

    if action is not None and not re.fullmatch(ACTION_PATTERN, action):
        fail("--action is one action, such as ride.matched, or several, as 'ride.*'", REFUSED)
    wanted = Filter(
        subject_kind=subject_kind,
        subject_id=subject_id,
        action=action,
        actor_id=actor_id,
        starts_at=moment_of(starts_at),
        ends_at=moment_of(ends_at),
    )
    found = run(lambda db, _: find_entries(db, wanted, before=before, limit=limit + 1))
    if as_json:
        from catraca.domains.audit.schemas import EntryPage

        typer.echo(EntryPage.of(found, limit=limit).model_dump_json(indent=2))
    else:
        _print_entries(found[:limit], more=len(found) > limit)


def _print_entries(entries: "Sequence[Entry]", *, more: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    from catraca.cli.dead_letter_tables import visible

    console = Console(highlight=False)
    if not entries:
        console.print("No such lines.")
        return
    table = Table()
    for heading in ("when", "action", "subject", "by", "data"):
        table.add_column(heading, overflow="fold")
    for one in entries:
        table.add_row(
            one.at.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            visible(one.action),
            visible(f"{one.subject_kind} {one.subject_id}"),
            str(one.actor_id or ""),
            visible(", ".join(f"{name} {value}" for name, value in one.data.items())),
        )
    console.print(table)
    if more:
        console.print(f"There are more: --before {entries[-1].id}", style="dim", soft_wrap=True)
