"""`catraca migrate`."""

from typing import Annotated

import typer

from catraca.cli.database import find_settings, need_database
from catraca.cli.failures import expected_failures


def migrate(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Migrate the database to the schema of this version.

    Safe to repeat and to run on several machines at once; each migration is one transaction.

    Example: `CATRACA_DATABASE_URL=postgresql://catraca@db/catraca catraca migrate`
    """
    import asyncio
    import json

    with expected_failures():
        from catraca.platform.database.migrations import migrate as run
        from catraca.platform.database.migrations import newest_revision

        done = asyncio.run(run(need_database(find_settings())))
    if as_json:
        typer.echo(json.dumps({"schema": newest_revision(), "migrated": done}))
    elif done:
        typer.echo(f"Migrated: {' '.join(done)}")
    else:
        typer.echo(f"Nothing to do: the schema is {newest_revision()}, the newest")
