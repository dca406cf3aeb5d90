"""The audit log: operators' actions, written in the transaction of the action. Rows cannot be changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import msgspec
import structlog

from catraca.platform.database import Db
from catraca.platform.ids import new_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An action on a subject. `data` holds ids and reasons, never personal data."""

    actor_id: UUID | None
    action: str
    subject_kind: str
    subject_id: UUID | str
    request_id: str | None
    data: Mapping[str, object] = field(default_factory=dict[str, object])


async def record(
    db: Db,
    *,
    actor_id: UUID | None,
    action: str,
    subject_kind: str,
    subject_id: UUID | str,
    data: dict[str, object] | None = None,
) -> None:
    """Write an action of `actor_id` on a subject. `data` holds ids and reasons, never personal data."""
    entry = Entry(
        actor_id=actor_id,
        action=action,
        subject_kind=subject_kind,
        subject_id=subject_id,
        request_id=structlog.contextvars.get_contextvars().get("request_id"),
        data=data or {},
    )
    await insert_entries(db, [entry])


async def insert_entries(db: Db, entries: Sequence[Entry]) -> None:
    """Write several entries, in their order."""
    await db.execute(
        "INSERT INTO audit_log (id, actor_id, action, subject_kind, subject_id, data, request_id)"
        " SELECT * FROM"
        " unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::jsonb[], $7::text[])",
        new_ids(len(entries)),
        [entry.actor_id for entry in entries],
        [entry.action for entry in entries],
        [entry.subject_kind for entry in entries],
        [str(entry.subject_id) for entry in entries],
        [msgspec.json.encode(entry.data, enc_hook=str).decode() for entry in entries],
        [entry.request_id for entry in entries],
    )
