"""Audit records and names."""

from uuid import UUID

from catraca.domains.scheduling.shared import store
from catraca.platform.database import Db, audit

names_of = store.read_names


async def record_audit(db: Db, action: str, subject_id: UUID, *, by: UUID) -> None:
    """`action` is the kind of the subject and what was done: `worker.created`."""
    kind = action.partition(".")[0]
    await audit.record(db, actor_id=by, action=action, subject_kind=kind, subject_id=subject_id)
