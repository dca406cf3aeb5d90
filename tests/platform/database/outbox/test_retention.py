"""Old rows are deleted a bounded number at a time."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from catraca.platform.database import Database, retention
from catraca.platform.database.inbox import prune_inbox
from catraca.platform.database.outbox import prune_sent

KEPT_FOR = timedelta(hours=20)
SENT = "id, aggregate_id, seq, exchange, routing_key, headers, body, created_at, sent_at"


@pytest.mark.parametrize(
    ("table", "columns", "values", "prune"),
    [
        ("inbox", "consumer, event_id, handled_at", "'a', gen_random_uuid()", prune_inbox),
        (
            "outbox_sent",
            SENT,
            "gen_random_uuid(), gen_random_uuid(), 1, 'e', 'k', '{}', '{}', now()",
            prune_sent,
        ),
    ],
)
async def test_old_rows_are_pruned_in_bounded_batches(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    columns: str,
    values: str,
    prune: Callable[..., Any],
) -> None:
    monkeypatch.setattr(retention, "PRUNED_AT_ONCE", 10)
    age = columns.rsplit(", ", 1)[1]
    async with database.connection() as db:
        await db.execute(
            f"INSERT INTO {table} ({columns})"
            f" SELECT {values}, now() - make_interval(hours => n) FROM generate_series(1, 40) AS n"
        )

    async def pruned() -> int:
        return await database.run(lambda db: prune(db, older_than=KEPT_FOR))

    async with database.transaction() as other:
        await other.fetch(f"SELECT FROM {table} ORDER BY {age} LIMIT 5 FOR UPDATE")
        assert await pruned() == 10  # without the rows that another transaction has locked
        assert await pruned() == 6
    assert await pruned() == 5
    assert await pruned() == 0
    async with database.connection() as db:
        kept = await db.fetchval(f"SELECT count(*) FROM {table} WHERE {age} > now() - interval '20 hours'")
        assert await db.fetchval(f"SELECT count(*) FROM {table}") == kept == 19
