"""`catraca events`."""

from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    ASYNCAPI = "asyncapi"


def events(
    form: Annotated[Format, typer.Option("--format", help="A table, a page, or AsyncAPI 3.0 as JSON.")] = (
        Format.TABLE
    ),
) -> None:
    """Print every event: its fields, its publishers, its queues and the roles that consume them.

    Example: `catraca events --format asyncapi > catraca.asyncapi.json`
    """
    import json

    if form is Format.MARKDOWN:
        from catraca.events.markdown import page

        typer.echo(page(), nl=False)
    elif form is Format.ASYNCAPI:
        from catraca.events.asyncapi import document

        typer.echo(json.dumps(document(), indent=2, ensure_ascii=False))
    else:
        _print_table()


def _print_table() -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from catraca.events.catalogue import catalogue

    table = Table(show_lines=True)
    for heading in ("event", "says", "fields", "from", "to"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "event")
    for entry in catalogue():
        fields = [f"{field.name}: {field.type}" for field in entry.fields]
        queues = [f"{one.name}: {one.role}{' (planned)' if one.planned else ''}" for one in entry.queues]
        cells = [f"{entry.key}\n({entry.exchange})", entry.says, fields, entry.publishers, queues]
        table.add_row(*(escape(cell if isinstance(cell, str) else "\n".join(cell)) for cell in cells))
    Console(highlight=False).print(table)
