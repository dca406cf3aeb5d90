"""Logs as JSON lines with the request id, without personal data: no names, no bodies, no tokens."""

import json
import logging
import sys
import threading
from collections.abc import MutableMapping
from typing import Any, BinaryIO, cast

import msgspec
import structlog
from structlog.types import EventDict

from catraca.platform.redaction import describe_error, error_in, masked, masked_message, plain

log = structlog.get_logger()

_encoder = msgspec.json.Encoder(enc_hook=plain)


def configure_logging(level: str = "info") -> None:
    """Write our events, the libraries' messages and uncaught errors as JSON lines to standard error."""
    number = logging.getLevelNamesMapping()[level.upper()]
    output = cast(BinaryIO, _Output(sys.stderr.buffer))
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        # Bytes: a line is then one write, so lines of several processes do not mix.
        logger_factory=structlog.BytesLoggerFactory(output),
        cache_logger_on_first_use=True,
    )
    handler = _LibraryHandler(structlog.BytesLogger(output))
    # At debug level libraries log what they send and receive.
    logging.basicConfig(handlers=[handler], level=max(number, logging.INFO), force=True)
    # Our own line has the request id, and no addresses and queries.
    logging.getLogger("uvicorn.access").disabled = True
    # At info it logs each socket's query, which holds the ticket.
    logging.getLogger("uvicorn.error").setLevel(max(number, logging.WARNING))
    logging.captureWarnings(True)
    _catch_the_uncaught()


def render(_: Any, __: str, event: EventDict) -> bytes:
    """One event as one line. Values without a JSON form are replaced; the line is always written."""
    error = error_in(event.pop("exc_info", None))
    event = masked(event)
    if error is not None:
        event["exception"] = describe_error(error)
    try:
        return _encoder.encode(event)
    except (ValueError, TypeError, OverflowError, RecursionError):  # such as a lone surrogate
        return json.dumps({key: _simple(value) for key, value in event.items()}).encode()


def _simple(value: object) -> object:
    return value if isinstance(value, (str, int, float, bool, type(None))) else plain(value)


class _Output:
    """Ignores write errors: a full disk or a closed pipe must not fail the work that logs."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, line: bytes) -> None:
        try:
            self._file.write(line)
        except (OSError, ValueError):
            return

    def flush(self) -> None:
        try:
            self._file.flush()
        except (OSError, ValueError):
            return


class _LibraryHandler(logging.Handler):
    """Messages of libraries from `logging`, with values masked."""

    def __init__(self, output: structlog.BytesLogger) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        event: MutableMapping[str, Any] = {
            "event": masked_message(record),
            "logger": record.name,
            "level": record.levelname.lower(),
            "exc_info": record.exc_info,
        }
        structlog.contextvars.merge_contextvars(None, "", event)
        self._output.msg(render(None, "", _stamp(None, "", event)))


_stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)


def _catch_the_uncaught() -> None:
    """Log uncaught errors: Python would print messages, which may quote values."""

    def at_top(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if isinstance(error, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
        else:
            log.critical("process_failed", exc_info=error)

    def in_thread(args: threading.ExceptHookArgs) -> None:
        log.error("thread_failed", exc_info=args.exc_value)

    def while_clearing_up(unraisable: Any) -> None:
        log.error("error_ignored", exc_info=unraisable.exc_value)

    sys.excepthook = at_top
    threading.excepthook = in_thread
    sys.unraisablehook = while_clearing_up
