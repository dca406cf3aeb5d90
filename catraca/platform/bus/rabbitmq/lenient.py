"""Foreign messages must not take the connection down.

The codec refuses a whole frame for a header name that is not UTF-8 or a timestamp beyond the year 9999, and
the client then gives up its connection, with every queue's consumer on it. The broker delivers the same
message again on the next one, and so on. Here what cannot be read becomes a mark that decoding finds.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pamqp import decode

MARK = "x-unreadable"

Decoder = Callable[[bytes], tuple[int, Any]]


def tolerate_foreign_properties() -> None:
    """Replace the decoders that may fail on what another publisher wrote; safe to repeat."""
    decode.METHODS.update(shortstr=_short_string, table=_table, timestamp=_timestamp)


def _short_string(value: bytes) -> tuple[int, str]:
    end = 1 + value[0]
    return end, value[1:end].decode("utf-8", "replace")


def _table(value: bytes) -> tuple[int, dict[str, Any]]:
    try:
        return decode.field_table(value)
    except (ValueError, OverflowError, RecursionError, IndexError):
        return 4 + int.from_bytes(value[:4]), {MARK: True}


def _timestamp(value: bytes) -> tuple[int, datetime]:
    try:
        return decode.timestamp(value)
    except (ValueError, OverflowError, OSError):
        return 8, datetime.fromtimestamp(0, UTC)
