"""Rows for one queue: withdrawn while unclaimed, and not late before their time."""

from uuid import UUID, uuid4

import asyncpg
import pytest

from catraca.platform.database import Database, outbox
from catraca.platform.database.event_invariants import EVENT_INVARIANTS
from catraca.platform.database.invariants import check_invariants
from catraca.platform.ids import new_id
from tests.support.outboxes import SampleEvent, record, waiting


async def add_replay(database: Database, about: UUID, *, seq: int = 1, wait_seconds: float = 0) -> UUID:
    """Insert a replay as dead letters do; returns the message's id."""
    message_id = new_id()
    async with database.connection() as db:
        await db.execute(
            "INSERT INTO outbox (id, aggregate_id, seq, exchange, routing_key, headers, body, queue,"
            "   message_id, created_at, leased_until)"
            " SELECT $1, $2, $3, 'test.events', 'test.told', '{\"seq\": 9}', '{}', 'a_queue', $4, due, due"
            " FROM (SELECT clock_timestamp() + make_interval(secs => $5) AS due) AS d",
            new_id(),
            about,
            seq,
            message_id,
            wait_seconds,
        )
    return message_id


async def test_replay_has_the_id_of_the_dead_message(database: Database) -> None:
    message_id = await add_replay(database, uuid4())
    (row,) = await waiting(database)
    message = outbox.message_of(row)
    assert (message.id, message.queue, message.headers.seq) == (message_id, "a_queue", 9)
    await record(database, SampleEvent(subject_id=uuid4()))
    news = next(row for row in await waiting(database) if row["queue"] is None)
    assert (outbox.message_of(news).id, outbox.message_of(news).queue) == (news["id"], None)


async def test_only_unclaimed_replays_are_withdrawn(database: Database) -> None:
    idle, scheduled, in_hand, other, news = [uuid4() for _ in range(5)]
    await add_replay(database, in_hand)
    async with database.connection() as db:
        assert len(await outbox.claim_unsent(db, lease=uuid4(), lease_seconds=60, limit=10)) == 1
    await add_replay(database, idle)
    await add_replay(database, scheduled, wait_seconds=3600)
    await add_replay(database, other)
    await record(database, SampleEvent(subject_id=news))
    taken = await database.run(lambda db: outbox.withdraw(db, [idle, scheduled, in_hand, news]))
    assert taken == {idle, scheduled}
    assert {row["aggregate_id"] for row in await waiting(database)} == {in_hand, other, news}


async def test_future_replay_is_neither_counted_nor_late(database: Database) -> None:
    await add_replay(database, uuid4(), wait_seconds=3600)
    async with database.connection() as db:
        assert await outbox.backlog(db) == (0, 0.0)
        await record(database, SampleEvent(subject_id=uuid4()))
        # It does not hide late events behind it.
        await db.execute("UPDATE outbox SET created_at = created_at - interval '1 hour' WHERE queue IS NULL")
        depth, age_seconds = await outbox.backlog(db)
        assert (depth, age_seconds >= 3600) == (1, True)
        assert len(await outbox.claim_unsent(db, lease=uuid4(), lease_seconds=60, limit=10)) == 1


async def test_replays_are_not_numbered_with_events(database: Database) -> None:
    about = uuid4()
    await record(database, *(SampleEvent(subject_id=about) for _ in range(3)))
    await add_replay(database, about, seq=7)
    await add_replay(database, uuid4())
    async with database.connection() as db:
        verdicts = await check_invariants(database, EVENT_INVARIANTS)
        assert [one.rule.name for one in verdicts if one.state != "held"] == []
        await db.execute("UPDATE outbox SET created_at = created_at - interval '2 minutes' WHERE seq = 7")
        verdicts = await check_invariants(database, EVENT_INVARIANTS)
        assert [one.rule.name for one in verdicts if one.state != "held"] == ["no event waits"]


async def test_replay_needs_a_queue_and_a_message_id(database: Database) -> None:
    await record(database, SampleEvent(subject_id=uuid4()))
    async with database.connection() as db:
        with pytest.raises(asyncpg.CheckViolationError):
            await db.execute("UPDATE outbox SET queue = 'a_queue'")
