"""The audit log as values: its lines, and which of them are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

NAME_MAX_CHARACTERS: Final = 200
# An action as it is written down, or all that begin with these words: `ride.matched`, `ride.*`.
ACTION_PATTERN: Final = r"^[a-z0-9_]+(\.[a-z0-9_]+)*(\.\*)?$"
ALL_OF: Final = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Who did what to which subject, and when. Nobody acted where an event was only noticed."""

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
    """What is not given does not matter. `action` may be a pattern; `ends_at` itself is no longer meant."""

    subject_kind: str | None = None
    subject_id: str | None = None
    action: str | None = None
    actor_id: UUID | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None
