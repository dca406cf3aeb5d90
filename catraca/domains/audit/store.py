"""Reads the audit log; what is written there, `platform/database/audit.py` writes."""

from uuid import UUID

import msgspec

from catraca.domains.audit.model import ALL_OF, Entry, Filter
from catraca.platform.database import Db, Row

CONDITIONS = {
    "subject_kind": "subject_kind = ${}",
    "subject_id": "subject_id = ${}",
    "action": "action = ${}",
    "actor_id": "actor_id = ${}",
    "starts_at": "at >= ${}",
    "ends_at": "at < ${}",
    # Lines are never removed: there is always the one that ended the page before.
    "before": "(at, id) < ((SELECT at FROM audit_log WHERE id = ${0}), ${0})",
}
# An action's first word is its subject's kind, by the schema: by that an index finds them.
ALL_OF_THEM = "subject_kind = split_part(${0}, '.', 1) AND starts_with(action, ${0})"


async def find_entries(db: Db, wanted: Filter, *, before: UUID | None, limit: int) -> list[Entry]:
    """The newest first, from the one before `before`."""
    where, values = _where(wanted, before)
    rows = await db.fetch(
        "SELECT id, at, actor_id, action, subject_kind, subject_id, data, request_id"  # noqa: S608 - our own words
        f" FROM audit_log WHERE {where} ORDER BY at DESC, id DESC LIMIT ${len(values) + 1}",
        *values,
        limit,
    )
    return [_entry(row) for row in rows]


def _where(wanted: Filter, before: UUID | None) -> tuple[str, list[object]]:
    """The condition with its values: only what is asked for, so that it is planned for just that."""
    asked = {name: getattr(wanted, name) for name in CONDITIONS if name != "before"} | {"before": before}
    given = {name: value for name, value in asked.items() if value is not None}
    conditions = dict(CONDITIONS)
    if wanted.action is not None and wanted.action.endswith(ALL_OF):
        conditions["action"] = ALL_OF_THEM
        given["action"] = wanted.action.removesuffix("*")
    parts = [conditions[name].format(place) for place, name in enumerate(given, 1)]
    return " AND ".join(["true", *parts]), list(given.values())


def _entry(row: Row) -> Entry:
    return Entry(**{**row, "data": msgspec.json.decode(row["data"])})
