"""The holder of an aggregate's earliest event has the later ones too: no other relay sends them."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest

from catraca.platform.database import Database, Row, outbox, use_custom_plans
from tests.servers import until
from tests.support.outboxes import (
    SampleEvent,
    a_backend_waits_for_a_lock,
    fill,
    record,
    sent,
    waiting,
)

EXPIRED = -1.0


async def claim(
    database: Database, *, limit: int = 100, lease: UUID | None = None, seconds: float = 60
) -> Sequence[Row]:
    async with database.connection() as db:
        return await outbox.claim_unsent(db, lease=lease or uuid4(), lease_seconds=seconds, limit=limit)


def seqs(rows: Sequence[Row], subject: UUID) -> list[int]:
    return [row["seq"] for row in rows if row["aggregate_id"] == subject]


async def test_later_events_wait_while_an_earlier_one_is_locked(database: Database) -> None:
    subject, other = sorted([uuid4(), uuid4()])
    await record(
        database, *(SampleEvent(subject_id=subject) for _ in range(5)), SampleEvent(subject_id=other)
    )
    assert seqs(await claim(database, limit=2), subject) == [1, 2]
    left = await claim(database)
    assert seqs(left, subject) == []
    assert seqs(left, other) == [1]
    await record(database, SampleEvent(subject_id=subject))
    assert not await claim(database)


async def test_later_events_wait_while_an_earlier_one_is_claimed(database: Database) -> None:
    """The claim of the first is not committed, so its lease is not visible, only its lock."""
    subject, other = uuid4(), uuid4()
    await record(
        database,
        SampleEvent(subject_id=subject),
        SampleEvent(subject_id=subject),
        SampleEvent(subject_id=other),
    )
    async with database.transaction() as db:
        held = await outbox.lock_unsent(db, limit=1)
        (first,) = {row["aggregate_id"] for row in held}
        assert {row["aggregate_id"] for row in await claim(database)} == {subject, other} - {first}


async def test_claim_rechecks_rows_that_another_claim_committed(database: Database) -> None:
    """The claim reads the first event as free; before it locks the row, another relay has claimed it."""
    await record(database, *(SampleEvent(subject_id=uuid4()) for _ in range(2)))
    async with database.connection() as db:
        await db.execute("CREATE SCHEMA IF NOT EXISTS slow")
        await db.execute(
            "CREATE OR REPLACE FUNCTION slow.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS"
            " 'BEGIN PERFORM pg_advisory_xact_lock_shared(7); RETURN pg_catalog.clock_timestamp(); END'"
        )

    async def claim_slowly() -> Sequence[Row]:
        async with database.transaction() as db:
            await db.execute("SET LOCAL search_path = slow, pg_catalog, public")
            return await outbox.claim_unsent(db, lease=uuid4(), lease_seconds=60, limit=100)

    async with database.transaction() as gate:
        await gate.execute("SELECT pg_advisory_xact_lock(7)")
        late = asyncio.create_task(claim_slowly())
        await until(lambda: a_backend_waits_for_a_lock(database))
        assert len(await claim(database)) == 2
    assert not await late


async def test_events_of_a_dead_relay_are_claimed_again(database: Database) -> None:
    subject = uuid4()
    await record(database, *(SampleEvent(subject_id=subject) for _ in range(3)))
    assert seqs(await claim(database, seconds=EXPIRED), subject) == [1, 2, 3]
    assert seqs(await claim(database), subject) == [1, 2, 3]


async def test_relay_without_the_lease_moves_no_events(database: Database) -> None:
    subject, mine, anothers = uuid4(), uuid4(), uuid4()
    await record(database, *(SampleEvent(subject_id=subject) for _ in range(2)))
    ids = [row["id"] for row in await claim(database, lease=mine, seconds=EXPIRED)]
    await claim(database, lease=anothers)
    assert await database.run(lambda db: outbox.mark_sent(db, ids, lease=mine)) == 0
    await database.run(lambda db: outbox.postpone(db, ids, [60.0, 60.0], lease=mine))
    await database.run(lambda db: outbox.release(db, ids, lease=mine))
    assert [(row["lease"], row["failures"]) for row in await waiting(database)] == [(anothers, 0)] * 2
    assert await database.run(lambda db: outbox.mark_sent(db, ids, lease=anothers)) == 2
    assert await sent(database) == [(subject, 1), (subject, 2)]


async def test_expired_lease_still_moves_events_if_unclaimed(database: Database) -> None:
    subject, mine = uuid4(), uuid4()
    await record(database, SampleEvent(subject_id=subject))
    ids = [row["id"] for row in await claim(database, lease=mine, seconds=EXPIRED)]
    assert await database.run(lambda db: outbox.mark_sent(db, ids, lease=mine)) == 1
    assert await sent(database) == [(subject, 1)]


async def test_postponed_event_delays_only_its_own_aggregate(database: Database) -> None:
    refused, other, mine = uuid4(), uuid4(), uuid4()
    await record(
        database, *(SampleEvent(subject_id=refused) for _ in range(3)), SampleEvent(subject_id=other)
    )
    rows = await claim(database, lease=mine)
    ids = [row["id"] for row in rows]
    first = [row["id"] for row in rows if row["aggregate_id"] == refused][:1]
    await database.run(lambda db: outbox.postpone(db, first, [60.0], lease=mine))
    await database.run(lambda db: outbox.release(db, ids, lease=mine))
    await record(database, SampleEvent(subject_id=refused))
    again = await claim(database)
    assert (seqs(again, refused), seqs(again, other)) == ([], [1])
    failures = [row["failures"] for row in await waiting(database) if row["aggregate_id"] == refused]
    assert failures == [1, 0, 0, 0]  # the later ones were not tried
    async with database.connection() as db:
        await db.execute("UPDATE outbox SET leased_until = '-infinity' WHERE failures > 0")
    assert seqs(await claim(database), refused) == [1, 2, 3, 4]


async def test_released_events_can_be_claimed_at_once(database: Database) -> None:
    subject, mine = uuid4(), uuid4()
    await record(database, *(SampleEvent(subject_id=subject) for _ in range(3)))
    ids = [row["id"] for row in await claim(database, lease=mine)]
    await database.run(lambda db: outbox.release(db, ids, lease=mine))
    assert seqs(await claim(database), subject) == [1, 2, 3]


async def test_waiting_aggregates_do_not_starve_others(database: Database) -> None:
    await fill(database, aggregates=2, each=10_000, wait_seconds=60)
    subject = uuid4()
    await record(database, SampleEvent(subject_id=subject))
    assert seqs(await claim(database), subject) == [1]


async def test_aggregates_may_have_any_id(database: Database) -> None:
    ends = [UUID(int=0), UUID(int=2**128 - 1)]
    await record(database, *(SampleEvent(subject_id=subject) for subject in ends))
    assert [row["aggregate_id"] for row in await claim(database)] == ends


class Explained:
    """Runs each statement under EXPLAIN, rolls it back, and adds up the pages it read."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self.buffers = 0
        self.most_rows = 0
        self.whole_tables: list[str] = []

    async def fetch(self, query: str, *args: object) -> list[Row]:
        await self._db.execute("SAVEPOINT before")
        plan = await self._db.fetchval("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + query, *args)
        await self._db.execute("ROLLBACK TO before")
        root = json.loads(plan)[0]["Plan"]
        self.buffers += root["Shared Hit Blocks"] + root["Shared Read Blocks"]
        self._look(root)
        return []

    fetchval = execute = fetch

    def _look(self, node: dict[str, Any]) -> None:
        self.most_rows = max(self.most_rows, node["Actual Rows"] * node["Actual Loops"])
        if node["Node Type"] == "Seq Scan":
            self.whole_tables.append(node["Relation Name"])
        for part in node.get("Plans", ()):
            self._look(part)


async def explain(database: Database, work: Callable[[Any], Awaitable[Any]]) -> Explained:
    async with database.transaction() as db:
        await use_custom_plans(db)  # as the relay does
        explained = Explained(db)
        await work(explained)
    return explained


def claim_500(db: Any) -> Awaitable[Sequence[Row]]:
    return outbox.claim_unsent(db, lease=uuid4(), lease_seconds=60, limit=500)


@pytest.mark.parametrize("statistics", ["none", "current", "of other rows", "of an emptied table"])
@pytest.mark.parametrize(("aggregates", "each"), [(1, 20_000), (20_000, 1)])
async def test_claim_reads_only_what_it_claims(
    database: Database, aggregates: int, each: int, statistics: str
) -> None:
    """With any statistics: a queue is empty at one moment and long at the next.

    After the queue was emptied, the statistics show pages without rows. PostgreSQL then expects one row,
    however many there are; with bitmap scans it would read and sort all of them for each claimed row.
    """
    async with database.connection() as db:
        if statistics in ("of other rows", "of an emptied table"):
            await fill(database, aggregates=each, each=aggregates)
            await db.execute("ANALYZE outbox")
            if statistics == "of other rows":
                await db.execute("TRUNCATE outbox")
            else:
                await db.execute("DELETE FROM outbox")
                await db.execute("VACUUM (TRUNCATE off) outbox")
        await fill(database, aggregates=aggregates, each=each)
        if statistics == "current":
            await db.execute("ANALYZE outbox")
    explained = await explain(database, claim_500)
    assert not explained.whole_tables
    assert explained.most_rows <= 500
    assert explained.buffers < 500 * 40  # a few for each row: three indexes, and twice the table


async def test_sent_events_do_not_slow_a_claim(database: Database) -> None:
    mine = uuid4()
    await fill(database, aggregates=300, each=3)
    ids = [row["id"] for row in await claim(database, lease=mine, limit=300)]
    costs: list[tuple[int, int]] = []
    for kept in (1_000, 49_000):
        async with database.connection() as db:
            await db.execute(
                "INSERT INTO outbox_sent"
                "   (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at)"
                " SELECT gen_random_uuid(), gen_random_uuid(), 1, 'e', 'k', '{}', '{}', now()"
                " FROM generate_series(1, $1::int)",
                kept,
            )
        claiming = await explain(database, claim_500)
        marking = await explain(database, lambda db: outbox.mark_sent(db, ids, lease=mine))
        assert "outbox_sent" not in claiming.whole_tables + marking.whole_tables
        costs.append((claiming.buffers, marking.buffers))
    (claim_few, mark_few), (claim_many, mark_many) = costs
    assert claim_many <= claim_few * 1.5
    assert mark_many <= mark_few * 2
