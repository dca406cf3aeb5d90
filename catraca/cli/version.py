"""`catraca version`."""

from typing import Annotated

import typer


def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Print the version and its schema."""
    import json
    from importlib.metadata import version as version_of

    from catraca.platform.database.migrations import newest_revision

    found = {"version": version_of("catraca"), "schema": newest_revision()}
    typer.echo(json.dumps(found) if as_json else f"catraca {found['version']} (schema {found['schema']})")
