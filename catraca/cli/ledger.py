"""`catraca ledger`: checks of the ledger, for a shell on the machine."""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catraca.cli.database import find_settings, need_database, on_database
from catraca.cli.doctor import print_verdicts, verdicts_for_json
from catraca.cli.failures import FAILED, expected_failures

if TYPE_CHECKING:
    from catraca.domains.billing.ledger.model import AccountSum

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Check the ledger.")


@app.callback()
def ledger() -> None:
    """Check the ledger."""


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
