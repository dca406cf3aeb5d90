"""Progress of a long command: a spinner on a terminal, plain lines elsewhere."""

from contextlib import suppress
from types import TracebackType

from rich.console import Console


class Progress:
    """Lines on standard error; standard output is for results."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status = self._console.status("Starting")

    def say(self, message: str) -> None:
        """Print one line; a closed terminal or pipe is ignored."""
        # A closed pipe makes rich raise SystemExit, a closed terminal is an OSError.
        with suppress(OSError, SystemExit):
            self._console.print(message, style="dim", markup=False, soft_wrap=True)

    def done(self) -> None:
        """Stop the spinner."""
        self._status.stop()

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.done()
