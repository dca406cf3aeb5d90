"""`catraca charges explain`: what happened to a charge."""

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from catraca.cli.database import run_on_database
from catraca.cli.failures import expected_failures

if TYPE_CHECKING:
    from catraca.domains.billing.explain.model import Story

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Explain charges.")


@app.callback()
def charges() -> None:
    """Explain charges."""


@app.command()
def explain(
    wanted: Annotated[UUID, typer.Argument(metavar="ID", help="Id of the charge, or of its ride.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print every step, receipt and posting of a charge, in order.

    Example: `catraca charges explain 0198a8b2-3c00-7000-8000-000000000001`
    """
    with expected_failures():
        from catraca.domains.billing.explain.service import explain_charge

        story = run_on_database(lambda db: explain_charge(db, wanted))
    if as_json:
        _print_json(story)
    else:
        _print(story)


def _print(story: "Story") -> None:
    from rich.console import Console
    from rich.table import Table

    charge, console = story.charge, Console(highlight=False)
    console.print(f"Charge {charge.id} of ride {charge.ride_id}: {charge.status}")
    console.print(f"{_money(charge.paid_cents)} of {_money(charge.amount_cents)} {charge.currency} paid")
    table = Table()
    for heading in ("time", "what", "", ""):
        table.add_column(heading)
    table.add_column("amount", justify="right")
    for line in story.lines:
        amount = "" if line.cents is None else _money(line.cents)
        table.add_row(f"{line.at:%Y-%m-%d %H:%M:%S}", line.kind, line.what, line.detail, amount)
    console.print(table)


def _money(cents: int) -> str:
    return f"{Decimal(cents) / 100:,.2f}"


def _print_json(story: "Story") -> None:
    import msgspec

    typer.echo(msgspec.json.format(msgspec.json.encode(story)).decode())
