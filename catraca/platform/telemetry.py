"""Logs as JSON lines with the request's id, and nothing of a person's: no names, no bodies, no tokens."""

import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

# An event that carries one of these is a defect; the value goes, the fact that it was there stays.
PERSONAL = frozenset(
    {
        "name",
        "email",
        "phone",
        "address",
        "plate",
        "password",
        "token",
        "secret",
        "authorization",
        "body",
        "query",
    }
)
FRAMES_KEPT = 12


def configure_logging(level: str = "info") -> None:
    """Send our events and the libraries' through one JSON pipe to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        describe_exception,
        mask_personal,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(serializer=_encode)],
        wrapper_class=structlog.make_filtering_bound_logger(_level(level)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_encode),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(_level(level), logging.INFO), force=True)
    # Ours says the same with the request id and without addresses and queries.
    logging.getLogger("uvicorn.access").disabled = True


def describe_exception(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Where it happened and what kind it was; messages stay out, because libraries quote values in them."""
    info: Any = event.pop("exc_info", None)
    if not info:
        return event
    error: Any = info[1] if isinstance(info, tuple) else info  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(error, BaseException):  # exc_info=True: the one being handled
        error = sys.exc_info()[1]
    if error is not None:
        event["exception"] = _chain(error)
    return event


def mask_personal(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key in PERSONAL & event.keys():
        event[key] = "[masked]"
    return event


def _chain(error: BaseException) -> list[dict[str, object]]:
    links: list[dict[str, object]] = []
    current: BaseException | None = error
    while current is not None and len(links) < 5:
        frames = traceback.extract_tb(current.__traceback__)[-FRAMES_KEPT:]
        link: dict[str, object] = {
            "type": f"{type(current).__module__}.{type(current).__qualname__}",
            "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
        }
        for fact in ("sqlstate", "constraint_name", "table_name", "errno", "code"):
            if isinstance(value := getattr(current, fact, None), (str, int)):
                link[fact] = value
        links.append(link)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return links


def _level(name: str) -> int:
    return logging.getLevelNamesMapping()[name.upper()]


def _encode(event: Any, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
