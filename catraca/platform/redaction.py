"""Masks personal data in log lines. Libraries quote values in their messages, so these are masked too."""

import logging
import re
import sys
import traceback
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePath
from types import TracebackType
from typing import Any, cast

MASK = "[masked]"
# A log event with one of these keys is a defect: its value is masked, the key stays.
PERSONAL = frozenset({"name", "body", "query", "url", "headers", "detail"})
# Also as the last part of a longer key: `status_token`, `billing_address`.
PERSONAL_ENDINGS = frozenset(
    {"email", "phone", "address", "plate", "password", "hash", "token", "secret", "authorization", "cookie"}
)
NESTING_KEPT = 4
FRAMES_KEPT = 12
LINKS_KEPT = 5
CHARACTERS_KEPT = 300
# Attributes of errors that are logged if they look like names: they come from us or from the schema.
FACTS = ("sqlstate", "constraint_name", "table_name", "errno", "code")
NAME_SHAPE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# Characters with which a quoted value may begin in a library's message.
QUOTED = re.compile(r"[<({\[\"'`=]")
PERSONAL_TEXT = re.compile(
    r"[^\s@]+@[^\s@]+"  # e-mail, and credentials in an address
    r"|[A-Za-z0-9_+-]{32,}"  # tokens, keys, digests
    r"|\+?\d[\d ().-]{6,}\d"  # telephone numbers
)


def masked(values: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """The same keys, with personal values masked, also in nested values."""
    return {
        key: MASK if is_personal(key) else _masked_value(value, depth) if type(value) in _HOLDERS else value
        for key, value in values.items()
    }


_HOLDERS = (dict, list, tuple)


def _masked_value(value: Any, depth: int) -> Any:
    if depth >= NESTING_KEPT:
        return MASK
    if isinstance(value, dict):
        return masked({str(key): entry for key, entry in cast(dict[Any, Any], value).items()}, depth + 1)
    if isinstance(value, (list, tuple)):
        return [_masked_value(entry, depth + 1) for entry in cast(list[Any], value)]
    return value


@lru_cache(maxsize=1024)
def is_personal(key: str) -> bool:
    lowered = key.lower()
    return lowered in PERSONAL or lowered.replace("-", "_").rpartition("_")[2] in PERSONAL_ENDINGS


def plain(value: object) -> str:
    """A text for a value without a JSON form: its type, since its own text may quote anything."""
    return str(value) if isinstance(value, PurePath) else f"<{type(value).__qualname__}>"


def describe_error(error: BaseException) -> list[dict[str, object]]:
    """The error's type, frames and causes. Without messages, which may quote values."""
    links: list[dict[str, object]] = []
    current: BaseException | None = error
    while current is not None and len(links) < LINKS_KEPT:
        link: dict[str, object] = {"type": _kind(current), "frames": _frames(current.__traceback__)}
        for fact in FACTS:
            value = getattr(current, fact, None)
            if isinstance(value, int) or (isinstance(value, str) and NAME_SHAPE.fullmatch(value)):
                link[fact] = value
        if isinstance(current, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", current)
            link["parts"] = [describe_error(part) for part in group.exceptions[:LINKS_KEPT]]
        links.append(link)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return links


def error_in(info: Any) -> BaseException | None:
    """The error in `exc_info`: an exception, a triple, or True for the one being handled."""
    if isinstance(info, BaseException):
        return info
    if isinstance(info, tuple):
        return cast(tuple[Any, BaseException | None, Any], info)[1]
    return sys.exc_info()[1] if info else None


def masked_message(record: logging.LogRecord) -> str:
    """A library's message in one line, with all values masked but numbers."""
    if not isinstance(record.msg, str):
        return plain(record.msg)
    lines = record.msg.splitlines()
    text = lines[0] if lines else ""
    if record.args:
        return PERSONAL_TEXT.sub(MASK, _filled(text, record.args)[:CHARACTERS_KEPT])
    error = error_in(record.exc_info)
    if error is not None and str(error):
        text = text.replace(str(error), MASK)
    return PERSONAL_TEXT.sub(MASK, QUOTED.split(text, maxsplit=1)[0][:CHARACTERS_KEPT]).strip()


class _Masked:
    def __repr__(self) -> str:
        return MASK


_MASKED = _Masked()


def _filled(template: str, args: Any) -> str:
    def shown(value: object) -> object:
        return value if isinstance(value, (int, float)) else _MASKED

    try:
        if isinstance(args, Mapping):
            return template % {key: shown(value) for key, value in cast(dict[Any, Any], args).items()}
        return template % tuple(shown(value) for value in args)
    except (TypeError, ValueError, KeyError):
        return template


def _kind(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _frames(trace: TracebackType | None) -> list[str]:
    # Without `extract_tb`, which reads the source files.
    steps = [(frame.f_code, line) for frame, line in traceback.walk_tb(trace)][-FRAMES_KEPT:]
    return [f"{code.co_filename}:{line} {code.co_name}" for code, line in steps]
