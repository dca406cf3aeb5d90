"""The audit log: operators' actions, written in the transaction of the action. Rows cannot be changed."""

from uuid import UUID

import msgspec
import structlog

from catraca.platform.database import Db
from catraca.platform.ids import new_id


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
    await db.execute(
        "INSERT INTO audit_log (id, actor_id, action, subject_kind, subject_id, data, request_id)"
        " VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7)",
        new_id(),
        actor_id,
        action,
        subject_kind,
        str(subject_id),
        msgspec.json.encode(data or {}, enc_hook=str).decode(),
        structlog.contextvars.get_contextvars().get("request_id"),
    )
