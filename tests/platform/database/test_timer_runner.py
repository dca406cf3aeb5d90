"""The timer runner: each timer fires once and in time, despite crashes, freezes, failures and outages."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest
from structlog.testing import capture_logs

from catraca.platform.database import Database, Db, timer_runner, timers
from catraca.platform.database import transactions as database_module
from catraca.platform.database.timer_runner import TimerRunner
from catraca.platform.database.timers import TimerHandlers, TimerKind, set_timer
from catraca.platform.errors import Busy
from catraca.platform.redis_client import RedisAway
from tests.servers import Stack, freeze, until
from tests.support.timer_world import (
    NOW,
    SHORTLY,
    Halfway,
    closed_gate,
    create_tables,
    database_apart,
    fired,
    firings,
    keeping,
    new_kind,
    outcomes,
    record_firing,
    recording,
    set_for,
    start_timekeeper,
    waiting_at_gate,
    waiting_timers,
)


@pytest.fixture(autouse=True)
async def tables(database: Database) -> None:
    await create_tables(database)


@pytest.fixture
def kind() -> TimerKind:
    return new_kind()


@pytest.fixture
async def another(stack: Stack) -> AsyncIterator[Database]:
    """The same database with the connections of another process."""
    database = await Database.open(stack.database_url, application_name="another")
    yield database
    await database.close()


@pytest.fixture
async def apart(stack: Stack) -> AsyncIterator[Database]:
    async with database_apart(stack) as database:
        yield database


async def test_two_runners_fire_each_timer_once(
    database: Database, another: Database, kind: TimerKind
) -> None:
    subjects, other_kind = [uuid4() for _ in range(1000)], new_kind()
    await set_for(database, kind, *subjects)
    async with keeping(database, recording(kind, other_kind)), keeping(another, recording(other_kind, kind)):
        await set_for(another, other_kind, *subjects, due_in=SHORTLY)
        await until(lambda: outcomes(kind, "fired") + outcomes(other_kind, "fired") == 2000)
    assert await firings(database, kind) == Counter(subjects)
    assert await firings(database, other_kind) == Counter(subjects)


async def test_timers_of_a_killed_runner_fire_once(stack: Stack, database: Database, kind: TimerKind) -> None:
    early, late = [uuid4() for _ in range(200)], [uuid4() for _ in range(200)]
    await set_for(database, kind, *early)
    victim = start_timekeeper(stack.database_url, kind, lease_seconds=1.5)
    await fired(database, kind, *early[:100])
    async with closed_gate(database, kind):
        await set_for(database, kind, *late)
        await until(lambda: waiting_at_gate(database))
        victim.kill()
        victim.wait()
    leased = [timer for timer in (await waiting_timers(database, kind)).values() if timer["lease"]]
    assert leased
    async with keeping(database, recording(kind)):
        await fired(database, kind, *early, *late)
        await until(lambda: _none_waiting(database, kind))
    assert await firings(database, kind) == Counter(early + late)


async def _none_waiting(database: Database, kind: TimerKind) -> bool:
    return not await waiting_timers(database, kind)


async def test_runner_frozen_past_its_lease_applies_nothing(
    stack: Stack, database: Database, kind: TimerKind
) -> None:
    subject = uuid4()
    await set_for(database, kind, subject)
    async with closed_gate(database, kind):
        sleeper = start_timekeeper(stack.database_url, kind, lease_seconds=1)
        await until(lambda: waiting_at_gate(database))
        freeze(sleeper.pid)
    async with keeping(database, recording(kind)):
        await fired(database, kind, subject)
    sleeper.send_signal(signal.SIGCONT)
    sleeper.terminate()
    assert await asyncio.to_thread(sleeper.wait, 20) == 0
    assert await firings(database, kind) == {subject: 1}


async def test_stopped_runner_finishes_only_the_claimed_timers(database: Database, kind: TimerKind) -> None:
    subjects, halfway = [uuid4() for _ in range(20)], Halfway(kind)
    await set_for(database, kind, *subjects)
    async with keeping(database, halfway.fires) as stopping:
        await halfway.entered.wait()
        stopping.set()
        halfway.let_on.set()
    in_hand = await firings(database, kind)
    assert 0 < in_hand.total() <= timer_runner.AT_ONCE
    left = await waiting_timers(database, kind)
    assert left.keys() == set(subjects) - in_hand.keys()
    assert {timer["lease"] for timer in left.values()} == {None}


async def test_failing_handler_is_retried_and_delays_no_other(database: Database, kind: TimerKind) -> None:
    fires, bad, good = TimerHandlers(), uuid4(), [uuid4() for _ in range(20)]
    failed = False

    @fires(kind)
    async def fire(db: Db, subject_id: UUID) -> None:
        nonlocal failed
        await record_firing(db, kind, subject_id)
        if subject_id == bad and not failed:
            failed = True
            raise KeyError

    await set_for(database, kind, bad)
    await set_for(database, kind, *good)
    with capture_logs() as logs:
        async with keeping(database, fires):
            await fired(database, kind, *good)
            assert bad not in await firings(database, kind)
            await fired(database, kind, bad)
    assert await firings(database, kind) == Counter([bad, *good])
    told = [entry for entry in logs if entry["event"] == "timer_failed"]
    assert [(entry["kind"], entry["subject_id"], entry["failures"]) for entry in told] == [(kind, bad, 1)]


async def test_slow_handler_delays_no_other(database: Database, kind: TimerKind) -> None:
    slow_kind, subject = new_kind(), uuid4()
    halfway = Halfway(slow_kind)
    await set_for(database, slow_kind, subject)
    async with keeping(database, halfway.fires, recording(kind)):
        await halfway.entered.wait()
        await set_for(database, kind, subject)
        await fired(database, kind, subject)
        assert not await firings(database, slow_kind)
        halfway.let_on.set()
    assert await firings(database, slow_kind) == {subject: 1}


async def test_failures_are_counted_and_pauses_grow_to_a_minute(database: Database, kind: TimerKind) -> None:
    subject, delays = uuid4(), []
    await set_for(database, kind, subject)
    for failures in range(9):
        async with database.transaction() as db:
            (timer,) = await timers.claim_due(db, [kind], lease=uuid4(), lease_seconds=60, limit=9)
            assert timer.failures == failures
            await timers.count_failure(db, timer)
            delays.append(await timers.seconds_to_next(db, [kind]))
            await db.execute("UPDATE timers SET awake_at = due_at WHERE kind = $1", kind)
    assert [round(delay) for delay in delays] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


async def test_handler_that_hangs_is_canceled_and_retried(
    database: Database, kind: TimerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timer_runner, "HANDLER_SECONDS", 0.2)
    subject, halfway = uuid4(), Halfway(kind)
    await set_for(database, kind, subject)
    async with keeping(database, halfway.fires):
        await until(lambda: outcomes(kind, "failed") == 1)
        assert (await waiting_timers(database, kind))[subject]["failures"] == 1
        halfway.let_on.set()
        await fired(database, kind, subject)
    assert await firings(database, kind) == {subject: 1}


@pytest.mark.parametrize("fault", [RedisAway, Busy])
async def test_outage_of_another_server_is_no_failure(
    database: Database, kind: TimerKind, fault: type[Exception]
) -> None:
    fires, subject, other, away = TimerHandlers(), uuid4(), uuid4(), True

    @fires(kind)
    async def fire(db: Db, subject_id: UUID) -> None:
        await record_firing(db, kind, subject_id)
        if away and subject_id == subject:
            raise fault

    await set_for(database, kind, subject, other)
    async with keeping(database, fires):
        await until(lambda: outcomes(kind, "postponed") >= 2)
        assert await firings(database, kind) == {other: 1}
        assert (await waiting_timers(database, kind))[subject]["failures"] == 0
        away = False
        await fired(database, kind, subject)
    assert outcomes(kind, "failed") == 0
    assert await firings(database, kind) == {subject: 1, other: 1}


async def test_database_outage_delays_timers_without_a_failure(
    stack: Stack, apart: Database, kind: TimerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claimed timers are released when the database is back; no lease has expired by then."""
    monkeypatch.setattr(timers, "LEASE_SECONDS", 600)
    in_hand, due_meanwhile, halfway = uuid4(), uuid4(), Halfway(kind)
    await set_for(apart, kind, in_hand)
    await set_for(apart, kind, due_meanwhile, due_in=SHORTLY)
    async with apart.connection() as db:
        name = await db.fetchval("SELECT current_database()")
    with capture_logs() as logs:
        async with keeping(apart, halfway.fires):
            await halfway.entered.wait()
            await rename_database(stack, name, f"{name}_away")
            halfway.let_on.set()
            await until(lambda: any(entry["event"] == "timer_runner_paused" for entry in logs))
            await rename_database(stack, f"{name}_away", name)
            await fired(apart, kind, in_hand, due_meanwhile)
    assert outcomes(kind, "failed") == 0
    assert await firings(apart, kind) == Counter([in_hand, due_meanwhile])


async def rename_database(stack: Stack, name: str, new_name: str) -> None:
    """Make the database unreachable under its name."""
    renamer, ender = [await asyncpg.connect(stack.database_url) for _ in range(2)]
    end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1"
    # It waits until the others disconnect, and new connections are refused.
    renaming = asyncio.create_task(renamer.execute(f'ALTER DATABASE "{name}" RENAME TO "{new_name}"'))
    while not (await asyncio.wait([renaming], timeout=0.02))[0]:
        await ender.execute(end_all, name)
    await renaming
    await renamer.close()
    await ender.close()


async def test_locked_timer_delays_no_other(database: Database, kind: TimerKind) -> None:
    held, free = uuid4(), uuid4()
    await set_for(database, kind, held, free)
    async with database.transaction() as db:
        await set_timer(db, kind, held, due_in=NOW)
        async with keeping(database, recording(kind)):
            await fired(database, kind, free)
    async with keeping(database, recording(kind)):
        await fired(database, kind, held)
    assert await firings(database, kind) == Counter([held, free])


async def test_unknown_kinds_are_left_to_other_processes(database: Database, kind: TimerKind) -> None:
    newer_kind, subject = new_kind(), uuid4()
    await set_for(database, newer_kind, subject)
    await set_for(database, kind, subject)
    async with keeping(database, recording(kind)):
        await fired(database, kind, subject)
        async with database.connection() as db:
            assert await timers.seconds_to_next(db, [kind]) is None
        assert (await waiting_timers(database, newer_kind))[subject]["lease"] is None
        async with keeping(database, recording(newer_kind)):
            await fired(database, newer_kind, subject)


async def test_two_handlers_for_one_kind_are_refused(kind: TimerKind) -> None:
    fires = recording(kind)
    with pytest.raises(AssertionError, match="already"):
        fires(kind)(fires.by_kind[kind])
    with pytest.raises(AssertionError, match="two handlers"):
        TimerRunner(None, [fires, recording(kind)])  # type: ignore[arg-type]


async def test_timer_of_another_process_wakes_an_idle_runner(
    database: Database, another: Database, kind: TimerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "POLL_SECONDS", 600)  # so that only the notification can have woken it
    async with keeping(database, recording(kind)):
        for due_in in (NOW, SHORTLY, SHORTLY):
            subject = uuid4()
            await set_for(another, kind, subject, due_in=due_in)
            await fired(database, kind, subject)


async def test_runner_sleeps_until_the_next_timer_is_due(
    database: Database, kind: TimerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "POLL_SECONDS", 600)
    monkeypatch.setattr(timers, "SOON", NOW)
    first, second = uuid4(), uuid4()
    await set_for(database, kind, first, due_in=SHORTLY)
    await set_for(database, kind, second, due_in=SHORTLY * 3)
    async with keeping(database, recording(kind)):
        await fired(database, kind, first, second)


async def test_only_timers_due_soon_wake_the_runners(database: Database, kind: TimerKind) -> None:
    async def announces(due_in: timedelta) -> bool:
        with database.channel.subscribe(timers.WAKE_TOPIC) as woken:
            await set_for(database, kind, uuid4(), due_in=due_in)
            return woken.is_set()

    longest_transaction = timedelta(seconds=database_module.LONG_TRANSACTION_SECONDS)
    assert await announces(NOW)
    assert await announces(longest_transaction)
    assert not await announces(timedelta(seconds=20))
