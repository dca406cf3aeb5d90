"""Reads the audit log; `platform/database/audit.py` writes it."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from catraca.domains.audit.model import PREFIX_END, Entry, Filter
from catraca.platform.database import Db, Row
from catraca.platform.database.conditions import Conditions

EXPORT_MAX_ENTRIES = 1000

FILTERS = {
    "subject_kind": "subject_kind = {}",
    "subject_id": "subject_id = {}",
    "action": "action = {}",
    "actor_id": "actor_id = {}",
    "starts_at": "at >= {}",
    "ends_at": "at < {}",
}
# The schema makes the first word of an action its subject's kind, for which there is an index.
ACTION_PREFIX = "subject_kind = split_part({0}, '.', 1) AND starts_with(action, {0})"
# Entries are never deleted, so the last entry of the previous page exists.
BEFORE = "(at, id) < ((SELECT at FROM audit_log WHERE id = {0}), {0})"


async def find_entries(db: Db, wanted: Filter, *, before: UUID | None, limit: int) -> list[Entry]:
    """The newest first, starting behind `before`."""
    where = _conditions(wanted)
    if before is not None:
        where.add(BEFORE, before)
    rows = await db.fetch(
        "SELECT id, at, actor_id, action, subject_kind, subject_id, data, request_id"  # noqa: S608 - our own words
        f" FROM audit_log WHERE {where} ORDER BY at DESC, id DESC LIMIT {where.value(limit)}",
        *where.values,
    )
    return [Entry(**{**row, "data": msgspec.json.decode(row["data"])}) for row in rows]


async def read_entries_about(db: Db, subject_kind: str, subject_id: UUID) -> Sequence[Row]:
    """Action and time, the newest first; the actor is another person's data."""
    return await db.fetch(
        "SELECT at, action FROM audit_log WHERE subject_kind = $1 AND subject_id = $2"
        " ORDER BY at DESC LIMIT $3",
        subject_kind,
        str(subject_id),
        EXPORT_MAX_ENTRIES,
    )


def _conditions(wanted: Filter) -> Conditions:
    where = Conditions()
    for name, condition in FILTERS.items():
        value = getattr(wanted, name)
        if name == "action" and value is not None and value.endswith(PREFIX_END):
            where.add(ACTION_PREFIX, value.removesuffix("*"))
        elif value is not None:
            where.add(condition, value)
    return where
