"""`catraca ledger`: check and export the ledger, from a shell on the machine."""

import sys
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catraca.cli.database import find_settings, need_database, on_database, run_on_database
from catraca.cli.doctor import print_verdicts, verdicts_for_json
from catraca.cli.failures import FAILED, expected_failures

if TYPE_CHECKING:
    from catraca.domains.billing.ledger.model import AccountSum

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Check and export the ledger.")


@app.callback()
def ledger() -> None:
    """Check and export the ledger."""


@app.command()
def check(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """Check the ledger and the charges, and print the sum of each kind of account.

    Exit code 0 if every rule holds, 1 otherwise. Changes nothing.

    Example: `catraca ledger check`
    """
    import asyncio

    with expected_failures():
        from catraca.domains.billing import INVARIANTS
        from catraca.domains.billing.ledger.store import sum_accounts
        from catraca.platform.telemetry import configure_logging
        from catraca.roles.doctor.checkup import check_rules

        configure_logging("error")
        settings = find_settings()
        sums = asyncio.run(on_database(need_database(settings), sum_accounts))
        verdicts = asyncio.run(check_rules(settings, INVARIANTS))
    sound = all(verdict.state == "held" for verdict in verdicts)
    if as_json:
        _print_json(sound, sums, verdicts_for_json(verdicts))
    else:
        print_verdicts(verdicts)
        _print_sums(sums)
    raise typer.Exit(0 if sound else FAILED)


class Form(StrEnum):
    csv = "csv"
    beancount = "beancount"


@app.command()
def export(
    form: Annotated[Form, typer.Option("--format", help="For a spreadsheet, or for Beancount.")] = Form.csv,
) -> None:
    """Write every posting as CSV, or as a Beancount file that `bean-check` accepts, to standard output.

    The file has the ledger as it was at one moment. Beancount checks the balance of each account at its end.

    Example: `catraca ledger export --format beancount > ledger.beancount`
    """
    with expected_failures():
        from rich.console import Console
        from rich.progress import Progress

        from catraca.domains.billing.export.service import export_ledger

        # Standard output is for the ledger.
        console = Console(stderr=True)
        with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
            bar = progress.add_task("Exporting", total=None)
            run_on_database(
                lambda db: export_ledger(
                    db,
                    form.value,
                    sys.stdout.write,
                    lambda done, count: progress.update(bar, completed=done, total=count),
                )
            )


def _print_sums(sums: "Sequence[AccountSum]") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not sums:
        console.print("Nothing has been posted yet.")
        return
    table = Table()
    table.add_column("accounts")
    for heading in ("currency", "debits", "credits", "balance"):
        table.add_column(heading, justify="right")
    for one in sums:
        amounts = (one.debits_cents, one.credits_cents, one.debits_cents - one.credits_cents)
        table.add_row(one.kind, one.currency, *(f"{Decimal(cents) / 100:,.2f}" for cents in amounts))
    console.print(table)


def _print_json(sound: bool, sums: "Sequence[AccountSum]", verdicts: list[dict[str, Any]]) -> None:
    import json
    from dataclasses import asdict

    document = {"ok": sound, "accounts": [asdict(one) for one in sums], "rules": verdicts}
    typer.echo(json.dumps(document, indent=2))
