"""Each consumer applies each event once: its inbox row is inserted in the transaction that applies it."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from catraca.platform.database import Db
from catraca.platform.database.retention import prune_rows


async def insert_new(db: Db, consumer: str, event_ids: Iterable[UUID]) -> set[UUID]:
    """Insert rows for these events; returns the events that this consumer has not applied before.

    A second transaction with the same event waits for the first one's commit or rollback.
    """
    rows = await db.fetch(
        "INSERT INTO inbox (consumer, event_id)"
        " SELECT DISTINCT $1, id FROM unnest($2::uuid[]) AS id ORDER BY id"
        " ON CONFLICT DO NOTHING RETURNING event_id",
        consumer,
        list(event_ids),
    )
    return {row["event_id"] for row in rows}


async def prune_inbox(db: Db, *, older_than: timedelta) -> int:
    """Delete older rows, a bounded number at a time; returns the number."""
    return await prune_rows(db, "inbox", aged_by="handled_at", older_than=older_than)
