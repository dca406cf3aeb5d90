"""`catraca communities import` and `export`: all communities as one GeoJSON file."""

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar
from uuid import UUID

import typer

from catraca.cli.community_files import (
    MAX_BYTES,
    ReadFile,
    collection_of,
    features_of,
    plain,
    read_features,
)
from catraca.cli.database import find_settings, need_database, on_database
from catraca.cli.failures import REFUSED, expected_failures, fail

if TYPE_CHECKING:
    from catraca.domains.communities.errors import NeighbourUnknown
    from catraca.domains.communities.service import ImportResult
    from catraca.platform.database import Db

T = TypeVar("T")
SHOWN_ROWS = 50

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Import and export communities with their fences, as GeoJSON.",
)


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="A GeoJSON FeatureCollection; `-` for standard input.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    by: Annotated[
        UUID | None, typer.Option(metavar="ID", help="The actor in the audit log; default: none.")
    ] = None,
) -> None:
    """Create and change communities to match a file, all of them or none.

    A feature's `id` is the community's; without one the id is derived from the `name`. Properties are the
    fields of `POST /v1/communities`, and `retired`. Communities that are not in the file stay as they are. A
    second run with the same file changes nothing. Exit code 1: features are faulty; all faults are listed.

    Examples: `catraca communities import town.geojson --dry-run`, `catraca communities import town.geojson`
    """
    with expected_failures():
        url = need_database(find_settings())
        features = features_of(*_content(file))
        with _progress("checked", len(features)) as advance:
            read = read_features(features, advance)
        for name, times in read.ignored.items():
            typer.echo(f'the property "{plain(name)}" is not known, and ignored ({times:,} times)', err=True)
        _refuse(read.faults)
        with _progress("compared" if dry_run else "written", len(features)) as advance:
            results = _import(url, read, by=by, dry_run=dry_run, on_each=advance)
    _report(read, results, dry_run=dry_run)


@app.command()
def export(
    file: Annotated[Path, typer.Argument(help="The file to write; default: standard output.")] = Path("-"),
) -> None:
    """Write all communities, retired ones included, in the form that `import` reads.

    Example: `catraca communities export town.geojson`
    """
    with expected_failures():
        from catraca.domains.communities.service import all_communities

        text = collection_of(_run(need_database(find_settings()), all_communities))
    if str(file) == "-":
        typer.get_binary_stream("stdout").write(text.encode())
        return
    try:
        file.write_text(text, "utf-8")
    except OSError as error:
        fail(f"{file} cannot be written: {(error.strerror or 'unknown').lower()}", REFUSED)


def _content(file: Path) -> tuple[str, bytes]:
    """The source's name and its bytes."""
    if str(file) == "-":
        return "standard input", sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with file.open("rb") as source:
            return str(file), source.read(MAX_BYTES + 1)
    except OSError as error:
        fail(f"{file} cannot be read: {(error.strerror or 'unknown').lower()}", REFUSED)


def _refuse(faults: Sequence[str]) -> None:
    if not faults:
        return
    for fault in faults:
        typer.echo(fault, err=True)
    fail(f"nothing was changed: {len(faults):,} fault{'s' if len(faults) > 1 else ''}")


def _import(
    url: str, read: ReadFile, *, by: UUID | None, dry_run: bool, on_each: Callable[[], None]
) -> "list[ImportResult]":
    from catraca.domains.communities import import_communities
    from catraca.domains.communities.errors import NeighbourUnknown

    try:
        return _run(
            url, lambda db: import_communities(db, read.drafts, by=by, dry_run=dry_run, on_each=on_each)
        )
    except NeighbourUnknown as unknown:
        _add_unknown_neighbours(read, unknown)
        _refuse(read.faults)
        raise


def _add_unknown_neighbours(read: ReadFile, unknown: "NeighbourUnknown") -> None:
    """Add a fault for each neighbour that is neither in the file nor in the database."""
    unknown_ids = set[object](unknown.data["neighbour_ids"])  # pyright: ignore[reportArgumentType]
    for one in read.drafts:
        for neighbour_id in one.rules.neighbour_ids:
            if neighbour_id in unknown_ids:
                words = f"{neighbour_id} is no community, here or in the file."
                read.add_fault(read.numbers[one.id], one.rules.name, "properties.neighbour_ids", words)


def _run(url: str, work: "Callable[[Db], Awaitable[T]]") -> T:
    import asyncio

    from catraca.platform.telemetry import configure_logging

    configure_logging("error")  # Standard output is for the result.
    return asyncio.run(on_database(url, work))


@contextmanager
def _progress(label: str, total: int) -> Generator[Callable[[], None]]:
    """A progress bar on a terminal; call the yielded function once for each item."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(label))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda: progress.advance(task)


def _report(read: ReadFile, results: "Sequence[ImportResult]", *, dry_run: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for heading in ("community", "id", "version", ""):
        table.add_column(heading, overflow="fold")
    rows = [
        (draft, result)
        for draft, result in zip(read.drafts, results, strict=True)
        if result.outcome != "unchanged"
    ]
    for draft, result in rows[:SHOWN_ROWS]:
        table.add_row(plain(draft.rules.name), str(draft.id), str(result.version), result.outcome)
    if rows:
        Console(highlight=False, markup=False).print(table)
    if len(rows) > SHOWN_ROWS:
        typer.echo(f"... and {len(rows) - SHOWN_ROWS:,} more")
    counts = Counter(result.outcome for result in results)
    summary = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in ("created", "changed", "unchanged"))
    typer.echo(f"Would be: {summary}." if dry_run else f"{summary}.")
