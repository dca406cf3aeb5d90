"""Dead letters as values: their fields, filters, and the shape of a body that lists may show."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NewType, cast
from uuid import UUID

import msgspec

from catraca.platform.bus.message import Headers

LetterId = NewType("LetterId", UUID)
State = Literal["waiting", "replayed", "discarded"]

# Queues, reasons and keys of foreign messages can be longer; they are cut when stored.
NAME_MAX_CHARACTERS = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message that could not be handled in `queue`. There is one letter per message and queue."""

    id: LetterId
    queue: str
    message_id: UUID
    exchange: str
    key: str
    reason: str
    headers: Headers
    size_bytes: int
    is_json: bool
    died_at: datetime
    times: int
    state: State
    decided_at: datetime | None
    decided_by: UUID | None
    decision_reason: str | None
    edited_at: datetime | None
    edited_by: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLetter(Letter):
    """With its body; `original_body` is the first body of an edited letter."""

    body: bytes
    original_body: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLetter(Letter):
    """With the shape of its body; None if the body is too large or not JSON."""

    shape: object


@dataclass(frozen=True, slots=True)
class Group:
    """Waiting letters with the same queue and reason; `count` has an upper limit."""

    queue: str
    reason: str
    count: int
    oldest_at: datetime
    newest_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects letters that match every given field; `state=None` selects every state."""

    state: State | None = "waiting"
    queue: str | None = None
    reason: str | None = None
    key: str | None = None
    message_id: UUID | None = None
    died_after: datetime | None = None
    died_before: datetime | None = None

    @property
    def given(self) -> dict[str, object]:
        """The fields that are not None."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def is_empty(self) -> bool:
        """True if no field but the state is given."""
        return not self.given.keys() - {"state"}


# A list shows the fields of a body, never their values.
SHAPE_MAX_BYTES = 16 * 1024
SHAPE_MAX_DEPTH = 6
SHAPE_MAX_NODES = 200
SHAPE_MAX_LIST_ITEMS = 3
# A field name of ours. The field names of foreign messages can be personal data, e.g. an e-mail address.
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def shape_of(body: bytes) -> object:
    """The body with a mark in place of every value, limited in size and depth; None if it is not JSON."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return _Mask().mask(value, SHAPE_MAX_DEPTH)


class _Mask:
    """Masks one body, up to a number of nodes."""

    def __init__(self) -> None:
        self._left = SHAPE_MAX_NODES

    def mask(self, value: object, depth: int) -> object:
        self._left -= 1
        if self._left < 0 or (depth == 0 and isinstance(value, (dict, list))):
            return "..."
        if isinstance(value, dict):
            return self._mask_object(cast(dict[str, Any], value), depth - 1)
        if isinstance(value, list):
            return self._mask_list(cast(list[Any], value), depth - 1)
        return _mark(value)

    def _mask_object(self, value: dict[str, Any], depth: int) -> dict[str, object]:
        masked: dict[str, object] = {}
        for number, (name, inner) in enumerate(value.items(), 1):
            if self._left <= 0:
                masked["..."] = f"{len(value) - number + 1} more"
                break
            masked[name if _FIELD.fullmatch(name) else f"[field {number}]"] = self.mask(inner, depth)
        return masked

    def _mask_list(self, value: list[Any], depth: int) -> list[object]:
        masked = [self.mask(inner, depth) for inner in value[:SHAPE_MAX_LIST_ITEMS]]
        more = len(value) - len(masked)
        return [*masked, f"... {more} more"] if more else masked


def _mark(value: object) -> str:
    if isinstance(value, bool):
        return "[boolean]"
    if value is None:
        return "[null]"
    return "[text]" if isinstance(value, str) else "[number]"
