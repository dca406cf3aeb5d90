"""`catraca scheduling`: commands for operators of agendas."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from catraca.cli.database import find_settings, need_database, on_database
from catraca.cli.failures import FAILED, expected_failures

if TYPE_CHECKING:
    from datetime import timedelta

    from catraca.domains.scheduling import ShiftedAppointment
    from catraca.platform.database import Db

MAX_ROWS = 50

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Check agendas.",
)


@app.callback()
def scheduling() -> None:
    """Typer gives a single command no name of its own, unless there is a callback."""


@app.command("audit-time-zones")
def audit_time_zones(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one line per appointment.")] = False,
) -> None:
    """List the upcoming appointments that are no longer at their agreed local time.

    Run it after an update of Catraca with new rules of time (`tzdata`). Appointments stay at their moment
    until they are rescheduled. Exit code 1 if there are any.

    Example: `catraca scheduling audit-time-zones --json`
    """
    with expected_failures():
        found = _audit(need_database(find_settings()), as_json=as_json)
    if found:
        raise typer.Exit(FAILED)


def _audit(url: str, *, as_json: bool) -> int:
    """Print the appointments and return how many there are; the table shows the first `MAX_ROWS`."""
    import asyncio

    from catraca.domains.scheduling import TZDATA_VERSION, find_shifted_appointments
    from catraca.platform.telemetry import configure_logging

    configure_logging("error")  # standard output is for the result

    async def find(db: "Db") -> "tuple[int, list[ShiftedAppointment]]":
        count, first = 0, list["ShiftedAppointment"]()
        async for shifted in find_shifted_appointments(db):
            count += 1
            if as_json:
                typer.echo(json.dumps(_as_data(shifted)))
            elif count <= MAX_ROWS:
                first.append(shifted)
        return count, first

    count, first = asyncio.run(on_database(url, find))
    if not as_json:
        _print(count, first)
        are = "is" if count == 1 else "are"
        typer.echo(f"{count:,} {are} not at the time agreed on, by the rules of tzdata {TZDATA_VERSION}.")
    return count


def _as_data(shifted: "ShiftedAppointment") -> dict[str, object]:
    agreed, off_by = shifted.agreed, shifted.off_by
    return {
        "appointment_id": str(agreed.appointment_id),
        "worker_id": str(agreed.worker_id),
        "status": agreed.status,
        "time_zone": agreed.time_zone,
        "tzdata_version": agreed.tzdata_version,
        "starts_at": agreed.starts_at.isoformat(),
        "local_starts_at": agreed.local_starts_at.isoformat(),
        "shown": shifted.shown and shifted.shown.isoformat(),
        "would_start_at": shifted.would_start_at and shifted.would_start_at.isoformat(),
        "off_by_minutes": None if off_by is None else off_by.total_seconds() / 60,
    }


def _print(count: int, first: "list[ShiftedAppointment]") -> None:
    from rich.console import Console
    from rich.table import Table

    from catraca.cli.dead_letter_tables import visible

    if not first:
        return
    table = Table()
    for heading in ("appointment", "worker", "agreed on", "zone", "rules", "clocks will show", "off by"):
        table.add_column(heading, overflow="fold")
    for shifted in first:
        agreed = shifted.agreed
        table.add_row(
            str(agreed.appointment_id),
            str(agreed.worker_id),
            f"{agreed.local_starts_at:%Y-%m-%d %H:%M}",
            visible(agreed.time_zone),
            visible(agreed.tzdata_version),
            "unknown zone" if shifted.shown is None else f"{shifted.shown:%Y-%m-%d %H:%M}",
            _signed(shifted.off_by),
        )
    Console(highlight=False).print(table)
    if count > len(first):
        typer.echo(f"... and {count - len(first):,} more: see --json")


def _signed(off_by: "timedelta | None") -> str:
    """Such as `+1:00` or `-0:30`."""
    if off_by is None:
        return ""
    hours, minutes = divmod(abs(int(off_by.total_seconds())) // 60, 60)
    return f"{'-' if off_by.total_seconds() < 0 else '+'}{hours}:{minutes:02}"
