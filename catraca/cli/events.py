"""`catraca events`."""

from enum import StrEnum
from typing import Annotated

import typer

from catraca.cli.failures import REFUSED, fail


class Format(StrEnum):
    TABLE = "table"
    MARKDOWN = "markdown"
    ASYNCAPI = "asyncapi"


def events(
    key: Annotated[
        str | None, typer.Argument(help="Print the fields, an example and the queues of this event.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="A table, a page, or AsyncAPI 3.0 as JSON.")] = (
        Format.TABLE
    ),
) -> None:
    """Print every event: its meaning, its publishers, its queues and the roles that consume them.

    Examples: `catraca events ride.accepted`, `catraca events --format asyncapi > catraca.asyncapi.json`
    """
    import json

    if key is not None:
        _print_details(key, form)
    elif form is Format.MARKDOWN:
        from catraca.events.markdown import page

        typer.echo(page(), nl=False)
    elif form is Format.ASYNCAPI:
        from catraca.events.asyncapi import document

        typer.echo(json.dumps(document(), indent=2, ensure_ascii=False))
    else:
        _print_table()


def _print_details(key: str, form: Format) -> None:
    from rich.console import Console
    from rich.markdown import Markdown

    from catraca.events.markdown import details

    found = details(key)
    if not found:
        fail(f"no event is named {key}; `catraca events` lists them", REFUSED)
    if form is Format.MARKDOWN:
        typer.echo(found, nl=False)
    else:
        Console(highlight=False).print(Markdown(found))


def _print_table() -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from catraca.events.catalogue import catalogue

    table = Table(show_lines=True)
    for heading in ("event", "meaning", "from", "to"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "event")
    for entry in catalogue():
        queues = [f"{one.name}: {one.role}" for one in entry.queues]
        cells = [f"{entry.key}\n({entry.exchange})", entry.says, entry.publishers, queues]
        table.add_row(*(escape(cell if isinstance(cell, str) else "\n".join(cell)) for cell in cells))
    Console(highlight=False).print(table)
