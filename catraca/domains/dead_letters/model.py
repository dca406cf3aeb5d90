"""Dead letters as values: what is known of one, which ones are meant, and what a list may show of a body."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NewType, cast
from uuid import UUID

import msgspec

from catraca.platform.bus.message import Headers

LetterId = NewType("LetterId", UUID)
State = Literal["waiting", "replayed", "discarded"]

REASON_MAX_CHARACTERS = 300
# One line, with something to read on it.
REASON_PATTERN = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
# Of what letters say of themselves; strangers may say more, and what is too long is cut when it is stored.
NAME_MAX_CHARACTERS = 255
BODY_MAX_BYTES = 1024 * 1024
BULK_MAX_LETTERS = 10_000
RATE_MAX_PER_SECOND = 1000
RATE_DEFAULT_PER_SECOND = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A message that could not be handled in `queue`: once for each queue, however often it died there."""

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
    """With its body, and the one it came with if that is another."""

    body: bytes
    original_body: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedLetter(Letter):
    """With the shape of its body; None where that is too large, or no JSON."""

    shape: object


@dataclass(frozen=True, slots=True)
class Group:
    """Letters that wait for the same reason in the same queue; counted up to a limit."""

    queue: str
    reason: str
    count: int
    oldest_at: datetime
    newest_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which letters are meant: all that fit every field given. Without a state, those in any."""

    state: State | None = "waiting"
    queue: str | None = None
    reason: str | None = None
    key: str | None = None
    message_id: UUID | None = None
    died_after: datetime | None = None
    died_before: datetime | None = None

    @property
    def given(self) -> dict[str, object]:
        """The fields that say something."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def means_everything(self) -> bool:
        return not self.given.keys() - {"state"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became, or in a dry run would become, of the letters a filter means.

    `refused` cannot be replayed as they are; `left` are beyond the limit, or were in somebody else's hand.
    """

    dry_run: bool
    matched: int
    done: int
    refused: int = 0
    left: int = 0
    seconds: float = 0


# What a list shows of a body: its fields, and never what is in them.
SHOWN_MAX_BYTES = 16 * 1024
SHOWN_DEPTH = 6
SHOWN_NODES = 200
SHOWN_OF_A_LIST = 3
# A name of ours. In a message of somebody else's, what stands before a colon may be anything, an address say.
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def shape_of(body: bytes) -> object:
    """The body with a mark in place of every value, bounded in size and depth; None if it is no JSON."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return _Masking().mask(value, SHOWN_DEPTH)


class _Masking:
    """One body's: counts what it shows, and stops when that is enough."""

    def __init__(self) -> None:
        self._left = SHOWN_NODES

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
        masked = [self.mask(inner, depth) for inner in value[:SHOWN_OF_A_LIST]]
        more = len(value) - len(masked)
        return [*masked, f"... {more} more"] if more else masked


def _mark(value: object) -> str:
    if isinstance(value, bool):
        return "[boolean]"
    if value is None:
        return "[null]"
    return "[text]" if isinstance(value, str) else "[number]"
