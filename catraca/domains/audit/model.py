"""Entries of the audit log, and filters for them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

NAME_MAX_CHARACTERS: Final = 200
# One action, or a prefix of actions: `ride.matched`, `ride.*`.
ACTION_PATTERN: Final = r"^[a-z0-9_]+(\.[a-z0-9_]+)*(\.\*)?$"
PREFIX_END: Final = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An action on a subject; `actor_id` is None for events and for the command line."""

    id: UUID
    at: datetime
    actor_id: UUID | None
    action: str
    subject_kind: str
    subject_id: str
    data: Mapping[str, Any]
    request_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects entries that match every given field. `action` may be a prefix; `ends_at` is exclusive."""

    subject_kind: str | None = None
    subject_id: str | None = None
    action: str | None = None
    actor_id: UUID | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
