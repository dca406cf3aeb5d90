"""`catraca scheduling`: what operators of agendas need at the machine itself."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from catraca.cli.database import find_settings, need_database, on_database
from catraca.cli.failures import FAILED, expected_failures

if TYPE_CHECKING:
    from datetime import timedelta

    from catraca.domains.scheduling import Moved
    from catraca.platform.database import Db

SHOWN_ROWS = 50

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Look after agendas.",
)


@app.callback()
def scheduling() -> None:
    """Without it, the only command would need no name."""


@app.command("audit-time-zones")
def audit_time_zones(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line for each.")] = False,
) -> None:
    """Tell which upcoming appointments are no longer at the local time that was agreed on.

    Run it after an update of Catraca brought new rules of time (`tzdata`). Appointments stay at their moment
    until somebody reschedules them. Exit code 1 when there are any.

    Example: `catraca scheduling audit-time-zones --json`
    """
    with expected_failures():
        found = _audit(need_database(find_settings()), as_json=as_json)
    if found:
        raise typer.Exit(FAILED)


def _audit(url: str, *, as_json: bool) -> int:
    """Answers how many there are; of a great many only the first are kept."""
    import asyncio

    from catraca.domains.scheduling import TZDATA_VERSION, moved_by_rules_of_time
    from catraca.platform.telemetry import configure_logging

    configure_logging("error")  # standard output is for the result

    async def look(db: "Db") -> "tuple[int, list[Moved]]":
        count, first = 0, list["Moved"]()
        async for moved in moved_by_rules_of_time(db):
            count += 1
            if as_json:
                typer.echo(json.dumps(_told(moved)))
            elif count <= SHOWN_ROWS:
                first.append(moved)
        return count, first

    count, first = asyncio.run(on_database(url, look))
    if not as_json:
        _print(count, first)
        are = "is" if count == 1 else "are"
        typer.echo(f"{count:,} {are} not at the time agreed on, by the rules of tzdata {TZDATA_VERSION}.")
    return count


def _told(moved: "Moved") -> dict[str, object]:
    agreed, off_by = moved.agreed, moved.off_by
    return {
        "appointment_id": str(agreed.appointment_id),
        "worker_id": str(agreed.worker_id),
        "status": agreed.status,
        "time_zone": agreed.time_zone,
        "tzdata_version": agreed.tzdata_version,
        "starts_at": agreed.starts_at.isoformat(),
        "local_starts_at": agreed.local_starts_at.isoformat(),
        "shown": moved.shown and moved.shown.isoformat(),
        "would_start_at": moved.would_start_at and moved.would_start_at.isoformat(),
        "off_by_minutes": None if off_by is None else off_by.total_seconds() / 60,
    }


def _print(count: int, first: "list[Moved]") -> None:
    from rich.console import Console
    from rich.table import Table

    from catraca.cli.dead_letter_tables import visible

    if not first:
        return
    table = Table()
    for heading in ("appointment", "worker", "agreed on", "zone", "rules", "clocks will show", "off by"):
        table.add_column(heading, overflow="fold")
    for moved in first:
        agreed = moved.agreed
        table.add_row(
            str(agreed.appointment_id),
            str(agreed.worker_id),
            f"{agreed.local_starts_at:%Y-%m-%d %H:%M}",
            visible(agreed.time_zone),
            visible(agreed.tzdata_version),
            "unknown zone" if moved.shown is None else f"{moved.shown:%Y-%m-%d %H:%M}",
            _spoken(moved.off_by),
        )
    Console(highlight=False).print(table)
    if count > len(first):
        typer.echo(f"... and {count - len(first):,} more: see --json")


def _spoken(off_by: "timedelta | None") -> str:
    """Such as `+1:00` or `-0:30`."""
    if off_by is None:
        return ""
    hours, minutes = divmod(abs(int(off_by.total_seconds())) // 60, 60)
    return f"{'-' if off_by.total_seconds() < 0 else '+'}{hours}:{minutes:02}"
