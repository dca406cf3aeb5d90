"""An event exists if and only if its change committed, numbered in the order of commits."""

import asyncio
import random
from contextlib import suppress
from itertools import pairwise
from uuid import UUID, uuid4

import asyncpg
import msgspec
import pytest
import structlog

from catraca.platform.database import Database, Db, TransactionAborted, outbox
from tests.support.outboxes import SampleEvent, record, waiting


async def test_committed_change_has_its_event_and_wakes_the_relay(
    database: Database,
) -> None:
    subject = uuid4()
    with database.channel.subscribe(outbox.WAKE_TOPIC) as woken:
        async with database.transaction() as db:
            with structlog.contextvars.bound_contextvars(request_id="r1"):
                await outbox.record(db, SampleEvent(subject_id=subject, word="olá"))
            assert not await waiting(database)
            assert not woken.is_set()
        assert woken.is_set()
    (row,) = await waiting(database)
    message = outbox.message_of(row)
    assert (message.exchange, message.key) == ("test.events", "test.told")
    assert (message.headers.aggregate_id, message.headers.seq, message.headers.trace) == (subject, 1, "r1")
    assert msgspec.json.decode(message.body, type=SampleEvent).word == "olá"


async def test_events_of_one_statement_keep_their_traces(database: Database) -> None:
    subject, other = uuid4(), uuid4()
    traced = [(subject, "r1"), (other, None), (subject, "r2")]
    async with database.transaction() as db:
        with outbox.caused_by("another request"):
            await outbox.record_traced(db, [(SampleEvent(subject_id=one), trace) for one, trace in traced])
            await outbox.record_traced(db, [])
    headers = [outbox.message_of(row).headers for row in await waiting(database)]
    assert {(one.aggregate_id, one.seq, one.trace) for one in headers} == {
        (subject, 1, "r1"),
        (other, 1, None),
        (subject, 2, "r2"),
    }


async def record_and_fail(db: Db) -> None:
    await outbox.record(db, SampleEvent(subject_id=uuid4()))
    raise KeyError


async def record_and_swallow(db: Db) -> None:
    await outbox.record(db, SampleEvent(subject_id=uuid4()))
    with suppress(asyncpg.UndefinedTableError):
        await db.execute("SELECT FROM nowhere")


async def record_and_be_canceled(db: Db) -> None:
    await outbox.record(db, SampleEvent(subject_id=uuid4()))
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(task.cancel)
    await db.execute("SELECT pg_sleep(30)")


@pytest.mark.parametrize(
    ("work", "failure"),
    [
        (record_and_fail, KeyError),
        (record_and_swallow, TransactionAborted),
        (record_and_be_canceled, asyncio.CancelledError),
    ],
)
async def test_rolled_back_change_has_no_event_no_number_no_wake_up(
    database: Database, work, failure: type[BaseException]
) -> None:
    with database.channel.subscribe(outbox.WAKE_TOPIC) as woken:
        with pytest.raises(failure):
            await asyncio.create_task(database.run(work))
        assert not woken.is_set()
        # The connection's next user sends no wake-up of the one before.
        for _ in range(20):
            async with database.transaction() as db:
                await db.execute("SELECT")
        assert not woken.is_set()
    assert not await waiting(database)
    async with database.connection() as db:
        assert await db.fetchval("SELECT count(*) FROM outbox_heads") == 0


async def test_statement_outside_a_transaction_wakes_the_relay(database: Database) -> None:
    with database.channel.subscribe(outbox.WAKE_TOPIC) as woken:
        async with database.connection() as db:
            await outbox.record(db, SampleEvent(subject_id=uuid4()))
        assert woken.is_set()
    assert len(await waiting(database)) == 1


async def test_recording_no_events_does_nothing(database: Database) -> None:
    await record(database)
    assert not await waiting(database)


async def test_events_of_one_call_keep_their_order(database: Database) -> None:
    one, two = uuid4(), uuid4()
    await record(database, SampleEvent(subject_id=one))
    words = [(random.choice((one, two)), str(n)) for n in range(40)]
    await record(database, *(SampleEvent(subject_id=subject, word=word) for subject, word in words))
    rows = await waiting(database)
    for subject, first in ((one, 2), (two, 1)):
        told = [
            (row["seq"], msgspec.json.decode(row["body"])["word"])
            for row in rows
            if row["aggregate_id"] == subject and row["seq"] >= first
        ]
        mine = [word for to, word in words if to == subject]
        assert told == list(enumerate(mine, first))
    # The oldest first, also across aggregates: the PostgreSQL bus inserts in this order.
    by_position = sorted(rows, key=lambda row: row["position"])[1:]
    assert [msgspec.json.decode(row["body"])["word"] for row in by_position] == [word for _, word in words]


async def test_numbers_of_concurrent_writers_have_no_gaps(database: Database) -> None:
    """A later commit has a higher number, so no reader sees 2 before 1."""
    subjects = [uuid4() for _ in range(5)]
    committed: dict[UUID, int] = dict.fromkeys(subjects, 0)
    seen_gaps: list[list[int]] = []

    async def write() -> None:
        for _ in range(50):
            chosen = random.sample(subjects, k=random.randint(1, 3))
            undone = random.random() < 0.2

            async def work(db: Db, chosen: list[UUID] = chosen, undone: bool = undone) -> None:
                await outbox.record(db, *(SampleEvent(subject_id=subject) for subject in chosen))
                if undone:
                    raise KeyError

            with suppress(KeyError):
                await database.run(work)
                for subject in chosen:
                    committed[subject] += 1

    async def look(stop: asyncio.Event) -> None:
        while not stop.is_set():
            rows = await waiting(database)
            for subject in subjects:
                seqs = [row["seq"] for row in rows if row["aggregate_id"] == subject]
                if seqs != list(range(1, len(seqs) + 1)):
                    seen_gaps.append(seqs)
            await asyncio.sleep(0.05)

    stop = asyncio.Event()
    looking = asyncio.create_task(look(stop))
    async with asyncio.timeout(60):
        await asyncio.gather(*(write() for _ in range(20)))
    stop.set()
    await looking
    assert not seen_gaps
    rows = await waiting(database)
    for subject in subjects:
        mine = [row for row in rows if row["aggregate_id"] == subject]
        assert [row["seq"] for row in mine] == list(range(1, committed[subject] + 1))
        assert all(earlier["position"] < later["position"] for earlier, later in pairwise(mine))


async def test_writers_of_the_same_aggregates_do_not_deadlock(
    database: Database,
) -> None:
    """Each in one statement and one transaction: a deadlock would fail it."""
    subjects = [uuid4() for _ in range(30)]

    async def write() -> None:
        for _ in range(10):
            shuffled = random.sample(subjects, k=len(subjects))
            async with database.transaction() as db:
                await outbox.record(db, *(SampleEvent(subject_id=subject) for subject in shuffled))

    await asyncio.gather(*(write() for _ in range(8)))
    assert len(await waiting(database)) == 8 * 10 * len(subjects)


async def test_backlog_has_the_count_and_the_age_of_the_oldest(database: Database) -> None:
    async with database.connection() as db:
        assert await outbox.backlog(db) == (0, 0.0)
    await record(database, *(SampleEvent(subject_id=uuid4()) for _ in range(3)))
    async with database.connection() as db:
        await db.execute("UPDATE outbox SET created_at = created_at - interval '1 hour'")
        depth, age_seconds = await outbox.backlog(db)
    assert depth == 3
    assert 3600 <= age_seconds < 3700
