"""Each consumer applies each event once: its inbox row is inserted in the transaction that applies it."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from catraca.platform.database import Db

PRUNED_AT_ONCE = 5000


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
    return await db.fetchval(
        # By ctid, which cannot change while the rows are locked: a join on the two-column key reads the whole
        # table.
        "WITH gone AS (DELETE FROM inbox WHERE ctid = ANY (ARRAY("
        "   SELECT ctid FROM inbox WHERE handled_at < (SELECT clock_timestamp() - $1::interval)"
        "   ORDER BY handled_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1)"
        " SELECT count(*) FROM gone",
        older_than,
        PRUNED_AT_ONCE,
    )
