"""Expected failures print one line with the remedy; only unexpected ones show a traceback."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

import typer

FAILED = 1
# Wrong settings, arguments or schema: a retry would fail too.
REFUSED = 2


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print one red line and exit."""
    typer.secho(f"catraca: {message}", fg=typer.colors.RED, err=True)
    raise typer.Exit(code)


@contextmanager
def expected_failures() -> Generator[None]:
    """Turn failures that the user can fix into one line and an exit code."""
    try:
        yield
    except typer.Exit:
        raise
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        fail(_words(error), code)


def _exit_code(error: Exception) -> int | None:
    # Imported on failure only, to keep commands quick.
    from catraca.platform.bus import TopologyRefused
    from catraca.platform.database.migrations import DatabaseUnreachable, SchemaProblem
    from catraca.platform.embedded import EmbeddedFailure
    from catraca.platform.errors import Refusal
    from catraca.roles.instance import NotReady
    from catraca.roles.listener import ListenFailed
    from catraca.roles.runner import RoleFailed
    from catraca.roles.supervisor import WorkersFailed
    from catraca.settings import NoSecret, UnfitForProduction, WrongSettings

    if isinstance(error, (WrongSettings, NoSecret, SchemaProblem, TopologyRefused, UnfitForProduction)):
        return REFUSED
    if isinstance(error, Refusal):
        return FAILED if error.retry_after_seconds else REFUSED
    expected = (EmbeddedFailure, DatabaseUnreachable, ListenFailed, NotReady, RoleFailed, WorkersFailed)
    return FAILED if isinstance(error, expected) else None


def _words(error: Exception) -> str:
    from catraca.platform.errors import Refusal
    from catraca.platform.texts import text

    return text(error.text_name, "en", error.data) if isinstance(error, Refusal) else str(error)
