"""`catraca users import`: a file of sign-ups, from this machine straight to the bus."""

import sys
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, TextIO

import typer

from catraca.cli.database import find_settings, need_database
from catraca.cli.failures import FAILED, REFUSED, expected_failures, fail

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from catraca.domains.onboarding import ImportedSoFar
    from catraca.settings import Settings

READ_BYTES = 256 * 1024
SHOWN_LINES = 20
Kind = Literal["csv", "jsonl"]
KINDS: dict[str, Kind] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Sign up many people at once.")


@app.callback()
def users() -> None:
    """Sign up many people at once."""


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="CSV or JSON lines; `-` for standard input.")],
    kind: Annotated[
        Kind | None, typer.Option("--format", help="Of the file; by default what its name ends in.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Sign-ups under one key are made once; by default the file's digest."),
    ] = None,
    language: Annotated[Literal["pt-BR", "en"], typer.Option(help="Theirs.")] = "pt-BR",
    refused: Annotated[
        Path | None, typer.Option(help="Write which lines were refused, and why, to this file.")
    ] = None,
) -> None:
    """Queue every line of a file as a sign-up; the ingester then makes people of them.

    In CSV the first line names the columns, `name` (or `nome`) and `email`. A line that is no sign-up is
    refused and told of; the others are taken. Running it again with the same file signs nobody up twice.
    Exit code 1 when lines were refused.

    Examples: `catraca users import people.csv`,
    `zcat people.jsonl.gz | catraca users import - --format jsonl`
    """
    import asyncio

    from catraca.platform.telemetry import configure_logging

    with expected_failures():
        chosen = kind or KINDS.get(file.suffix.lower()) or fail("say --format csv or jsonl", REFUSED)
        configure_logging("warning")  # standard output is for the result
        settings = find_settings()
        need_database(settings)
        with ExitStack() as opened:
            if str(file) == "-":
                source, size, own_key = sys.stdin.buffer, None, key
            else:
                source = opened.enter_context(_opened(file))
                size, own_key = file.stat().st_size, key or _digest(source)
            so_far = _so_far(refused and opened.enter_context(refused.open("w")))
            asyncio.run(
                _import(settings, source, so_far, size=size, kind=chosen, key=own_key, language=language)
            )
        _report(so_far, shown=refused is None)
    if so_far.refused:
        raise typer.Exit(FAILED)


def _opened(file: Path) -> BufferedReader:
    try:
        return file.open("rb")
    except OSError as error:
        fail(f"{file} cannot be read: {(error.strerror or 'unknown').lower()}", REFUSED)


def _digest(source: BufferedReader) -> str:
    import hashlib

    digest = hashlib.file_digest(source, "sha256").hexdigest()
    source.seek(0)
    return digest


def _so_far(report: TextIO | None) -> "ImportedSoFar":
    from catraca.domains.onboarding import ImportedSoFar

    if report is None:
        return ImportedSoFar()
    return ImportedSoFar(tell_refused=lambda line, code: report.write(f"line {line}: {code}\n"))


async def _import(
    settings: "Settings",
    source: BinaryIO,
    so_far: "ImportedSoFar",
    *,
    size: int | None,
    kind: Kind,
    key: str | None,
    language: Literal["pt-BR", "en"],
) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from catraca.domains.onboarding import Seal, import_sign_ups
    from catraca.roles.parts import open_parts

    told = TextColumn("{task.fields[so_far].accepted:,} queued, {task.fields[so_far].refused:,} refused")
    async with open_parts(settings) as parts:
        with Progress(BarColumn(), told, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=size, so_far=so_far)
            await import_sign_ups(
                parts.bus.publish,
                Seal(settings.signing_secret()),
                _chunks(source, progress, task),
                kind=kind,
                key=key,
                language=language,
                so_far=so_far,
            )


async def _chunks(source: BinaryIO, progress: "Progress", task: "TaskID") -> AsyncGenerator[bytes]:
    while chunk := source.read(READ_BYTES):
        yield chunk
        progress.advance(task, len(chunk))


def _report(done: "ImportedSoFar", *, shown: bool) -> None:
    typer.echo(f"{done.accepted:,} queued, {done.refused:,} refused, of {done.lines:,} lines.")
    if not shown:
        return
    for line, code in done.faults[:SHOWN_LINES]:
        typer.echo(f"line {line}: {code}", err=True)
    if done.refused > SHOWN_LINES:
        typer.echo(f"... and {done.refused - SHOWN_LINES:,} more: --refused FILE keeps all", err=True)
