"""`catraca audit`: the audit log, for a shell on the machine."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from catraca.cli.database import run_on_database
from catraca.cli.failures import REFUSED, expected_failures, fail
from catraca.cli.terminal import local_time, moment_of, visible

if TYPE_CHECKING:
    from catraca.domains.audit import Entry


def audit(
    subject_kind: Annotated[str | None, typer.Option(help="Entries about ride, user, ...")] = None,
    subject_id: Annotated[str | None, typer.Option(help="Entries about this subject.")] = None,
    action: Annotated[
        str | None, typer.Option(help="One action, or a prefix: ride.matched, 'ride.*'.")
    ] = None,
    actor_id: Annotated[UUID | None, typer.Option(help="Entries by this user.")] = None,
    starts_at: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Such as 2031-05-30T14:00; local time.")
    ] = None,
    ends_at: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Such as 2031-05-30T14:00Z.")
    ] = None,
    before: Annotated[UUID | None, typer.Option(help="Start behind this entry.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100)] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as the API returns it.")] = False,
) -> None:
    """Print the audit log, the newest entry first: actor, action, subject and time.

    Example: `catraca audit --action 'ride.*' --subject-id ID`
    """
    from catraca.domains.audit import ACTION_PATTERN, Filter, find_entries

    if action is not None and not re.fullmatch(ACTION_PATTERN, action):
        fail("--action is one action, such as ride.matched, or a prefix, such as 'ride.*'", REFUSED)
    wanted = Filter(
        subject_kind=subject_kind,
        subject_id=subject_id,
        action=action,
        actor_id=actor_id,
        starts_at=moment_of(starts_at),
        ends_at=moment_of(ends_at),
    )
    with expected_failures():
        found = run_on_database(lambda db: find_entries(db, wanted, before=before, limit=limit + 1))
    if as_json:
        from catraca.domains.audit.schemas import AuditPage

        typer.echo(AuditPage.of(found, limit=limit).model_dump_json(indent=2))
    else:
        _print_entries(found[:limit], more=len(found) > limit)


def _print_entries(entries: "Sequence[Entry]", *, more: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not entries:
        console.print("No entries match.")
        return
    table = Table()
    for heading in ("when", "action", "subject", "by", "data"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(
            local_time(entry.at),
            visible(entry.action),
            visible(f"{entry.subject_kind} {entry.subject_id}"),
            str(entry.actor_id or ""),
            visible(", ".join(f"{name} {value}" for name, value in entry.data.items())),
        )
    console.print(table)
    if more:
        console.print(f"More: --before {entries[-1].id}", style="dim", soft_wrap=True)
