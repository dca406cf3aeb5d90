"""Relays send each event, those of an aggregate in order, despite failures."""

import asyncio
import random
from uuid import UUID, uuid4

import pytest

from catraca.events import TOPOLOGY, UserCreated
from catraca.platform.bus import BusAway, Message, QueueFull, Unroutable
from catraca.platform.bus import relay as module
from catraca.platform.bus.postgres import PostgresBus
from catraca.platform.bus.relay import Relay
from catraca.platform.database import Database
from tests.servers import until
from tests.support.outboxes import (
    Recorder,
    SampleEvent,
    is_all_sent,
    numbers,
    record,
    running,
    sent,
    waiting,
)


async def write_much(database: Database, subjects: list[UUID], *, writers: int, rounds: int) -> int:
    """Record events of the same aggregates from concurrent writers; returns their number."""

    async def write() -> int:
        count = 0
        for _ in range(rounds):
            chosen = random.choices(subjects, k=random.randint(1, 4))
            await record(database, *(SampleEvent(subject_id=subject) for subject in chosen))
            count += len(chosen)
        return count

    return sum(await asyncio.gather(*(write() for _ in range(writers))))


async def test_several_relays_send_each_event_once_and_in_order(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No lease expires here, so no repeat is allowed."""
    monkeypatch.setattr(module, "BATCH", 7)
    monkeypatch.setattr(module, "LEASE_SECONDS", 600)
    taken: list[Message] = []

    async def turn(_: Message) -> None:
        await asyncio.sleep(0)

    relays = [Relay(database, Recorder(taken, before=turn)) for _ in range(5)]
    async with running(*relays):
        count = await write_much(database, [uuid4() for _ in range(8)], writers=6, rounds=40)
        await until(lambda: is_all_sent(database))
    assert len(taken) == count
    assert len(await sent(database)) == count
    for order in numbers(taken).values():
        assert order == list(range(1, len(order) + 1))


async def test_relays_move_each_event_once_and_in_order(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH", 7)
    subjects = [uuid4() for _ in range(8)]
    stray = SampleEvent(subject_id=uuid4())  # no queue is bound to it

    async def write() -> None:
        for _ in range(40):
            chosen = random.choices(subjects, k=random.randint(1, 4))
            await record(database, *(UserCreated(user_id=subject, roles=()) for subject in chosen))

    async with running(*(Relay(database, PostgresBus(database, TOPOLOGY)) for _ in range(4))):
        await record(database, stray)
        await asyncio.gather(*(write() for _ in range(6)))

        async def only_the_stray_is_left() -> bool:
            return [row["aggregate_id"] for row in await waiting(database)] == [stray.subject_id]

        await until(only_the_stray_is_left)
    async with database.connection() as db:
        rows = await db.fetch(
            "SELECT (headers->>'aggregate_id')::uuid AS subject, (headers->>'seq')::int AS seq"
            " FROM bus_messages WHERE queue = 'audit_log_queue' ORDER BY id"
        )
    for subject in subjects:
        order = [row["seq"] for row in rows if row["subject"] == subject]
        assert order == list(range(1, len(order) + 1))
    assert len(rows) == len(await sent(database))
    (left,) = await waiting(database)
    assert left["failures"] > 0


async def test_a_relay_that_is_overtaken_repeats_but_never_reorders(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One relay stalls after its first message until its lease expired and another has sent everything."""
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.3)
    taken: list[Message] = []
    go_on, stalled = asyncio.Event(), asyncio.Event()

    async def stall(message: Message) -> None:
        if message.headers.seq == 2:
            stalled.set()
            await go_on.wait()

    subject = uuid4()
    await record(database, *(SampleEvent(subject_id=subject) for _ in range(4)))
    slow = asyncio.create_task(Relay(database, Recorder(taken, before=stall)).send_batch())
    await stalled.wait()
    async with running(Relay(database, Recorder(taken))):
        await until(lambda: is_all_sent(database))
        await record(database, SampleEvent(subject_id=subject))
        await until(lambda: is_all_sent(database))
        go_on.set()
        await slow
    assert [m.headers.seq for m in taken] == [1, 1, 2, 3, 4, 5, 2, 3, 4]
    assert await sent(database) == [(subject, seq) for seq in range(1, 6)]


async def test_expiring_leases_cost_only_repeats(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims, late marks and releases of several relays meet on the same rows."""
    monkeypatch.setattr(module, "BATCH", 6)
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.03)
    taken: list[Message] = []

    async def dawdle(_: Message) -> None:
        await asyncio.sleep(random.random() * 0.01)

    async with running(*(Relay(database, Recorder(taken, before=dawdle)) for _ in range(6))):
        count = await write_much(database, [uuid4() for _ in range(10)], writers=4, rounds=25)
        await until(lambda: is_all_sent(database))
    kept = await sent(database)
    assert len(kept) == len(set(kept)) == count
    for order in numbers(taken).values():
        assert order == list(range(1, len(order) + 1))
    assert sum(len(order) for order in numbers(taken).values()) == count < len(taken)


async def test_events_are_released_uncounted_while_the_bus_is_down(
    database: Database,
) -> None:
    one, two = uuid4(), uuid4()
    await record(database, *(SampleEvent(subject_id=subject) for subject in (one, one, two)))
    relay = Relay(database, Recorder(refuse=lambda m: BusAway() if m.headers.aggregate_id == two else None))
    with pytest.raises(BusAway):
        await relay.send_batch()
    assert await sent(database) == [(one, 1), (one, 2)]
    (left,) = await waiting(database)
    assert (left["lease"], left["failures"]) == (None, 0)
    assert await Relay(database, Recorder()).send_batch() == 1


async def test_a_relay_pauses_during_a_bus_outage_and_resumes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 0.01)
    transport = Recorder(refuse=lambda _: BusAway())
    asked = 0

    async def count(_: Message) -> None:
        nonlocal asked
        asked += 1

    transport.before = count
    await record(database, SampleEvent(subject_id=uuid4()))
    async with running(Relay(database, transport)):
        await until(lambda: asked >= 3)
        assert [row["failures"] for row in await waiting(database)] == [0]
        transport.refuse = lambda _: None
        await until(lambda: is_all_sent(database))


@pytest.mark.parametrize("failure", [Unroutable("test.told"), QueueFull("a_queue")])
async def test_a_refused_event_holds_back_its_own_aggregate_only(
    database: Database, failure: Exception
) -> None:
    refused, others = uuid4(), [uuid4() for _ in range(5)]
    transport = Recorder(
        refuse=lambda m: failure if (m.headers.aggregate_id, m.headers.seq) == (refused, 2) else None
    )
    await record(
        database, *(SampleEvent(subject_id=subject) for subject in (refused, *others) for _ in range(3))
    )
    assert await Relay(database, transport).send_batch() == 18  # and does not raise BusAway
    async with running(Relay(database, transport), Relay(database, transport)):

        async def only_the_refused_is_left() -> bool:
            rows = await waiting(database)
            return [row["aggregate_id"] for row in rows] == [refused, refused] and rows[0]["failures"] > 1

        await until(only_the_refused_is_left)
        assert [row["failures"] > 0 for row in await waiting(database)] == [True, False]
        transport.refuse = lambda _: None
        await until(lambda: is_all_sent(database))
    assert numbers(transport.taken) == {subject: [1, 2, 3] for subject in (refused, *others)}


async def test_a_busy_aggregate_delays_no_other(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 10)
    busy, other = sorted([uuid4(), uuid4()])
    await record(database, *(SampleEvent(subject_id=busy) for _ in range(50)), SampleEvent(subject_id=other))
    transport = Recorder()
    relay = Relay(database, transport)
    assert [await relay.send_batch() for _ in range(3)] == [10, 1, 10]
    assert numbers(transport.taken) == {busy: list(range(1, 21)), other: [1]}
