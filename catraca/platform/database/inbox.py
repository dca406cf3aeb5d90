"""Each consumer applies each event once: its inbox row is written in the transaction that applies it."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from catraca.platform.database import Db

PRUNED_AT_ONCE = 5000


async def remember(db: Db, consumer: str, event_ids: Iterable[UUID]) -> set[UUID]:
    """Which of these this consumer has not applied yet; from now on, if the transaction commits, it has.

    A second consumer of the same event waits here for the first one's commit or rollback.
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
    """Forget what was applied longer ago than that, a bounded number; answers how many."""
    return await db.fetchval(
        # By where the rows lie, which does not change while they are locked: the key has two parts, and
        # joining on them reads the whole table.
        "WITH gone AS (DELETE FROM inbox WHERE ctid = ANY (ARRAY("
        "   SELECT ctid FROM inbox WHERE handled_at < (SELECT clock_timestamp() - $1::interval)"
        "   ORDER BY handled_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1)"
        " SELECT count(*) FROM gone",
        older_than,
        PRUNED_AT_ONCE,
    )
