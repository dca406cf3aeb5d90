"""`catraca users`: import a file of sign-ups, and remove a lost second factor."""

import sys
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal, TextIO
from uuid import UUID

import typer

from catraca.cli.database import find_settings, need_database, run_on_database
from catraca.cli.failures import FAILED, REFUSED, expected_failures, fail

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from catraca.domains.onboarding import ImportProgress
    from catraca.settings import Settings

READ_BYTES = 256 * 1024
SHOWN_LINES = 20
Kind = Literal["csv", "jsonl"]
KINDS: dict[str, Kind] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Sign up many users, or help one.")


@app.callback()
def users() -> None:
    """Sign up many users at once, or help one who cannot sign in."""


@app.command("import")
def import_file(
    file: Annotated[Path, typer.Argument(help="CSV or JSON lines; `-` for standard input.")],
    kind: Annotated[
        Kind | None, typer.Option("--format", help="The format of the file; by default from its name.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="With the same key, no user is added twice; by default a digest of the file."),
    ] = None,
    language: Annotated[Literal["pt-BR", "en"], typer.Option(help="The language of the users.")] = "pt-BR",
    refused: Annotated[
        Path | None, typer.Option(help="Write the refused lines and reasons to this file.")
    ] = None,
) -> None:
    """Queue every line of a file as a sign-up; the ingester then adds the users.

    The first line of CSV names the columns, `name` (or `nome`) and `email`. Invalid lines are refused and
    reported; the others are queued. Running it again with the same file adds no user twice.
    Exit code 1 if lines were refused.

    Examples: `catraca users import people.csv`,
    `zcat people.jsonl.gz | catraca users import - --format jsonl`
    """
    import asyncio

    from catraca.platform.telemetry import configure_logging

    with expected_failures():
        chosen = kind or KINDS.get(file.suffix.lower()) or fail("give --format csv or jsonl", REFUSED)
        configure_logging("warning")  # standard output is for the result
        settings = find_settings()
        need_database(settings)
        with ExitStack() as opened:
            if str(file) == "-":
                source, size, own_key = sys.stdin.buffer, None, key
            else:
                source = opened.enter_context(_opened(file))
                size, own_key = file.stat().st_size, key or _digest(source)
            progress = _progress(refused and opened.enter_context(refused.open("w")))
            asyncio.run(
                _import(settings, source, progress, size=size, kind=chosen, key=own_key, language=language)
            )
        _report(progress, shown=refused is None)
    if progress.refused:
        raise typer.Exit(FAILED)


@app.command()
def remove_second_factor(
    user_id: Annotated[UUID, typer.Argument(help="Id of the user.")],
    by: Annotated[
        UUID | None, typer.Option(metavar="ID", help="The actor in the audit log; default: none.")
    ] = None,
) -> None:
    """Remove the second factor of a user who has lost phone and recovery codes; audited.

    Operators can do the same with `DELETE /v1/users/{id}/second-factor`. This is for the only operator.

    Example: `catraca users remove-second-factor 0198a7f0-5d2e-7c41-9f0a-3b1c2d4e5f60`
    """
    with expected_failures():
        from catraca.domains.people.model import UserId
        from catraca.domains.people.second_factor.service import remove_factor
        from catraca.platform.errors import NotFound

        try:
            run_on_database(lambda db: remove_factor(db, UserId(user_id), by=by))
        except NotFound:
            fail("no such user, or the user has no second factor", REFUSED)
    typer.echo("Removed. The next sign-in needs the password only.")


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


def _progress(report: TextIO | None) -> "ImportProgress":
    from catraca.domains.onboarding import ImportProgress

    if report is None:
        return ImportProgress()
    return ImportProgress(on_refused=lambda line, code: report.write(f"line {line}: {code}\n"))


async def _import(
    settings: "Settings",
    source: BinaryIO,
    progress: "ImportProgress",
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

    counts = TextColumn("{task.fields[counts].accepted:,} queued, {task.fields[counts].refused:,} refused")
    async with open_parts(settings) as parts:
        with Progress(BarColumn(), counts, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=size, counts=progress)
            await import_sign_ups(
                parts.bus.publish,
                Seal(settings.existing_secret()),
                _chunks(source, bar, task),
                kind=kind,
                key=key,
                language=language,
                progress=progress,
            )


async def _chunks(source: BinaryIO, bar: "Progress", task: "TaskID") -> AsyncGenerator[bytes]:
    while chunk := source.read(READ_BYTES):
        yield chunk
        bar.advance(task, len(chunk))


def _report(done: "ImportProgress", *, shown: bool) -> None:
    typer.echo(f"{done.accepted:,} queued, {done.refused:,} refused, of {done.lines:,} lines.")
    if not shown:
        return
    for line, code in done.faults[:SHOWN_LINES]:
        typer.echo(f"line {line}: {code}", err=True)
    if done.refused > SHOWN_LINES:
        typer.echo(f"... and {done.refused - SHOWN_LINES:,} more: --refused FILE writes all", err=True)
