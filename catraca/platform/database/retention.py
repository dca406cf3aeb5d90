"""Deletion of rows past their retention, a bounded number at a time."""

from datetime import timedelta

from catraca.platform.database.connection import Db

PRUNED_AT_ONCE = 5000


async def prune_rows(
    db: Db,
    table: str,
    *,
    aged_by: str,
    older_than: timedelta | None = None,
    only: str = "true",
    limit: int | None = None,
) -> int:
    """Delete rows whose time `aged_by` passed longer ago than `older_than`; return their number.

    The oldest first, at most `limit` or `PRUNED_AT_ONCE`. Rows that another transaction has locked are
    skipped. `only` is a further condition on the rows.
    """
    return await db.fetchval(
        # By ctid, which cannot change while the rows are locked: a join on a key of two columns reads the
        # whole table. A subselect is evaluated once, the bare function for every row of the index.
        f"""
        WITH gone AS (
          DELETE FROM {table} WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM {table}
            WHERE {aged_by} < (SELECT clock_timestamp() - $1::interval) AND {only}
            ORDER BY {aged_by} LIMIT $2 FOR UPDATE SKIP LOCKED))
          RETURNING 1)
        SELECT count(*) FROM gone
        """,  # noqa: S608 - the caller's own words
        older_than or timedelta(0),
        limit or PRUNED_AT_ONCE,
    )
