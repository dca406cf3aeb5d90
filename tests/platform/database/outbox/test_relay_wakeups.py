"""Relays are woken by notifications, also find events without them, and stop without claimed events."""

import asyncio
from dataclasses import replace
from uuid import uuid4

import pytest
import structlog

from catraca.platform.bus import BusAway, Message
from catraca.platform.bus import relay as module
from catraca.platform.bus.relay import Relay
from catraca.platform.database import Database, outbox
from catraca.roles import runner
from catraca.roles.agents import outbox_gauges
from catraca.roles.parts import Parts
from catraca.roles.relay import Relay as RelayRole
from catraca.roles.runner import Life
from tests.servers import Stack, until
from tests.support.outboxes import (
    Recorder,
    SampleEvent,
    a_backend_waits_for_a_lock,
    another_process,
    away,
    database_of_its_own,
    fill,
    is_all_sent,
    record,
    running,
    sent,
)


async def test_a_stopping_relay_sends_its_claimed_events(database: Database) -> None:
    publishing, go_on = asyncio.Event(), asyncio.Event()

    async def stall(_: Message) -> None:
        publishing.set()
        await go_on.wait()

    subject = uuid4()
    await record(database, SampleEvent(subject_id=subject))
    stopping = asyncio.Event()
    task = asyncio.create_task(Relay(database, Recorder(before=stall)).run(stopping))
    await publishing.wait()
    stopping.set()
    go_on.set()
    await task
    assert await sent(database) == [(subject, 1)]


async def test_an_event_with_a_lost_notification_is_found(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.05)
    async with running(Relay(database, Recorder())):
        for count in (6, 12):  # the first may be found by the relay's first poll
            await fill(database, aggregates=3, each=2)
            await until(lambda: is_all_sent(database))
            assert len(await sent(database)) == count


async def test_a_wake_up_from_another_process_is_enough(
    stack: Stack, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 3600)
    async with another_process(stack, database) as another, running(Relay(database, Recorder())):
        for _ in range(3):
            await record(another, SampleEvent(subject_id=uuid4()))
            await until(lambda: is_all_sent(database))


async def test_a_late_commit_is_sent_after_younger_events(database: Database) -> None:
    early, late = uuid4(), uuid4()
    transport = Recorder()
    async with running(Relay(database, transport)):
        async with database.transaction() as db:
            await outbox.record(db, SampleEvent(subject_id=early))
            await record(database, SampleEvent(subject_id=late))
            await until(lambda: [m.headers.aggregate_id for m in transport.taken] == [late])
        await until(lambda: is_all_sent(database))
    first, second = (m.id for m in transport.taken)
    assert first > second


async def test_a_relay_pauses_while_the_database_is_away(
    stack: Stack, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.01)
    async with running(Relay(database, Recorder())):
        with structlog.testing.capture_logs() as lines:
            async with away(stack, database):
                await until(lambda: sum(line["event"] == "relay_pauses" for line in lines) >= 3)
        await record(database, SampleEvent(subject_id=uuid4()))
        await until(lambda: is_all_sent(database))


async def test_relay_looks_once_for_each_wake_up(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 3600)
    batches: list[int] = []

    class CountingRelay(Relay):
        async def send_batch(self) -> int:
            batches.append(await super().send_batch())
            return batches[-1]

    async with running(CountingRelay(database, Recorder())):
        await until(lambda: batches == [0])
        for _ in range(3):
            await record(database, SampleEvent(subject_id=uuid4()))
            await until(lambda: is_all_sent(database))
    assert batches == [0, 1, 1, 1]


async def test_relay_continues_after_a_full_batch(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 3600)
    monkeypatch.setattr(module, "BATCH", 2)
    await record(database, *(SampleEvent(subject_id=uuid4()) for _ in range(5)))
    async with running(Relay(database, Recorder())):
        await until(lambda: is_all_sent(database))


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
async def test_relay_retries_after_a_deadlock(
    stack: Stack, database: Database, order: tuple[int, int]
) -> None:
    """A deadlock, as after a lost lease: each has locked a row that the other wants, in either order."""
    publishing, go_on = asyncio.Event(), asyncio.Event()

    async def stall(_: Message) -> None:
        publishing.set()
        await go_on.wait()

    subject = uuid4()
    await record(database, SampleEvent(subject_id=subject), SampleEvent(subject_id=subject))
    sending = asyncio.create_task(Relay(database, Recorder(before=stall)).send_batch())
    await publishing.wait()
    async with another_process(stack, database) as another, another.transaction() as db:
        # The backend that checks for deadlocks first is rolled back: that must be the relay's.
        await db.execute("SET LOCAL deadlock_timeout = '1 min'")
        await db.execute("SELECT FROM outbox WHERE seq = $1 FOR UPDATE", order[0])
        go_on.set()
        await until(lambda: a_backend_waits_for_a_lock(database))
        await db.execute("SELECT FROM outbox WHERE seq = $1 FOR UPDATE", order[1])
    assert await sending == 2
    assert await sent(database) == [(subject, 1), (subject, 2)]


async def test_the_relay_role_publishes_and_reports_its_lag(
    parts: Parts, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MEASURE_SECONDS", 0.05)
    transport = Recorder(refuse=lambda _: BusAway())
    life = Life()
    task = asyncio.create_task(RelayRole(replace(parts, database=database, bus=transport)).run(life))  # type: ignore[arg-type]
    await record(database, SampleEvent(subject_id=uuid4()), SampleEvent(subject_id=uuid4()))
    await until(lambda: outbox_gauges.DEPTH._value.get() == 2 and outbox_gauges.AGE._value.get() > 0)
    transport.refuse = lambda _: None
    await until(lambda: outbox_gauges.DEPTH._value.get() == 0 and outbox_gauges.AGE._value.get() == 0)
    life.stopping.set()
    await task
    assert len(await sent(database)) == 2


async def test_a_plan_made_for_an_empty_outbox_is_not_kept(stack: Stack) -> None:
    """PostgreSQL keeps the plan of a prepared statement; for an empty table that is a sequential scan."""
    async with database_of_its_own(stack, connections=1) as database:
        relay = Relay(database, Recorder())
        async with database.connection() as db:
            await db.execute("VACUUM ANALYZE outbox")
        for _ in range(8):
            assert await relay.send_batch() == 0
        await fill(database, aggregates=5_000, each=1)
        assert await relay.send_batch() == module.BATCH
        # A few scans of so small a table are fine; hundreds are not.
        assert await _rows_read_from_whole_tables(database) <= 5 * 5_000


async def _rows_read_from_whole_tables(database: Database) -> int:
    async with database.connection() as db:
        await db.execute("SELECT pg_stat_force_next_flush()")
        return await db.fetchval("SELECT seq_tup_read FROM pg_stat_user_tables WHERE relname = 'outbox'")
