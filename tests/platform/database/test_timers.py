"""Timers: set in the transaction of the change, moved and canceled reliably, and cheap while they wait."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from catraca.platform.database import Database, DatabaseLimits, Db, timer_runner, timers
from catraca.platform.database import transactions as database_module
from catraca.platform.database.invariants import check_invariants
from catraca.platform.database.timer_runner import TimerRunner
from catraca.platform.database.timers import TimerHandlers, TimerKind, cancel_timer, set_timer, set_timers
from tests.servers import Stack, until
from tests.support.timer_world import (
    LATER,
    NOW,
    SHORTLY,
    Halfway,
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
    waiting_timers,
)


@pytest.fixture(autouse=True)
async def tables(database: Database) -> None:
    await create_tables(database)


@pytest.fixture
def kind() -> TimerKind:
    return new_kind()


@pytest.fixture
async def apart(stack: Stack) -> AsyncIterator[Database]:
    async with database_apart(stack) as database:
        yield database


async def test_timers_set_together_are_due_at_their_own_times(database: Database, kind: TimerKind) -> None:
    start = datetime(2060, 1, 1, tzinfo=UTC)
    due_at = {uuid4(): start + timedelta(hours=number) for number in range(3)}
    async with database.transaction() as db:
        await timers.set_timers(db, kind, due_at)
    found = await waiting_timers(database, kind)
    assert {subject: row["due_at"] for subject, row in found.items()} == due_at


async def test_timer_fires_once_and_never_early(database: Database, kind: TimerKind) -> None:
    subject = uuid4()
    await set_for(database, kind, subject, due_in=SHORTLY)
    due_at = (await waiting_timers(database, kind))[subject]["due_at"]
    async with keeping(database, recording(kind)):
        await fired(database, kind, subject)
        await until(lambda: outcomes(kind, "fired") == 1)
    async with database.connection() as db:
        rows = await db.fetch("SELECT fired_at FROM test_firings WHERE kind = $1", kind)
    assert [row["fired_at"] >= due_at for row in rows] == [True]
    assert not await waiting_timers(database, kind)
    assert timer_runner.LAG_SECONDS.labels(kind)._sum.get() > 0


async def test_timer_can_be_due_at_a_database_time(database: Database, kind: TimerKind) -> None:
    subject = uuid4()
    async with database.transaction() as db:
        moment: datetime = await db.fetchval("SELECT clock_timestamp() + interval '1 day'")
        await set_timer(db, kind, subject, due_at=moment)
    assert (await waiting_timers(database, kind))[subject]["due_at"] == moment


async def test_timers_of_one_call_have_their_own_times(database: Database, kind: TimerKind) -> None:
    async with database.transaction() as db:
        moment: datetime = await db.fetchval("SELECT clock_timestamp() + interval '1 day'")
        due_at = {uuid4(): moment + timedelta(hours=hours) for hours in range(3)}
        await set_timers(db, kind, dict.fromkeys(due_at, moment))
        await set_timers(db, kind, due_at)
        await set_timers(db, kind, {})
    waiting = await waiting_timers(database, kind)
    assert {subject: row["due_at"] for subject, row in waiting.items()} == due_at


async def test_due_in_counts_from_the_call_not_from_begin(database: Database, kind: TimerKind) -> None:
    async with database.transaction() as db:
        moment = await db.fetchval("SELECT clock_timestamp()")
        await set_timer(db, kind, uuid4(), due_in=NOW)
        assert await db.fetchval("SELECT due_at >= $2 FROM timers WHERE kind = $1", kind, moment)


async def test_rolled_back_changes_of_timers_have_no_effect(database: Database, kind: TimerKind) -> None:
    set_before, never_set = uuid4(), uuid4()
    await set_for(database, kind, set_before, due_in=LATER)
    before = await waiting_timers(database, kind)
    for change in (
        lambda db: set_timer(db, kind, set_before, never_set, due_in=NOW),
        lambda db: cancel_timer(db, kind, set_before),
    ):
        with pytest.raises(KeyError):
            async with database.transaction() as db:
                await change(db)
                raise KeyError
    assert await waiting_timers(database, kind) == before


async def test_moved_and_canceled_timers_do_not_fire_when_first_due(
    database: Database, kind: TimerKind
) -> None:
    stays, moved, canceled, hurried = (uuid4() for _ in range(4))
    await set_for(database, kind, stays, moved, canceled, due_in=SHORTLY)
    await set_for(database, kind, hurried, due_in=LATER)
    async with database.transaction() as db:
        await set_timer(db, kind, moved, due_in=LATER)
        await set_timer(db, kind, hurried, hurried, due_in=SHORTLY)
        await cancel_timer(db, kind, canceled, uuid4())
    async with keeping(database, recording(kind)):
        await fired(database, kind, stays, hurried)
    assert await firings(database, kind) == Counter([stays, hurried])
    assert (await waiting_timers(database, kind)).keys() == {moved}


async def test_timers_can_be_canceled_on_a_fresh_connection(stack: Stack, kind: TimerKind) -> None:
    """The setting that firing leaves in its session affects no later statement, and may be missing."""
    fresh = await Database.open(stack.database_url, limits=DatabaseLimits(connections=1))
    subjects = [uuid4() for _ in range(2)]
    await set_for(fresh, kind, *subjects, due_in=LATER)
    async with fresh.transaction() as db:
        await cancel_timer(db, kind, subjects[0])
    async with keeping(fresh, recording(kind)):
        await set_for(fresh, kind, uuid4())
        await until(lambda: outcomes(kind, "fired") == 1)
    assert (await waiting_timers(fresh, kind)).keys() == {subjects[1]}
    async with fresh.transaction() as db:
        await cancel_timer(db, kind, subjects[1])
    assert not await waiting_timers(fresh, kind)
    await fresh.close()


@pytest.mark.parametrize("how", ["moved", "canceled"])
async def test_timer_changed_while_firing_rolls_back_its_handler(
    database: Database, kind: TimerKind, how: str
) -> None:
    subject, halfway = uuid4(), Halfway(kind)
    await set_for(database, kind, subject)
    async with keeping(database, halfway.fires):
        await halfway.entered.wait()
        async with database.transaction() as db:
            if how == "moved":
                await set_timer(db, kind, subject, due_in=LATER)
            else:
                await cancel_timer(db, kind, subject)
        halfway.let_on.set()
        await until(lambda: outcomes(kind, "overtaken") == 1)
    assert not await firings(database, kind)
    assert [timer["ahead"] for timer in (await waiting_timers(database, kind)).values()] == (
        [True] if how == "moved" else []
    )


async def test_timer_moved_while_firing_fires_at_its_new_time(database: Database, kind: TimerKind) -> None:
    """Moved and claimed again by the same runner: the first handler's work is outdated."""
    fires, subject, inside = TimerHandlers(), uuid4(), []

    @fires(kind)
    async def fire(db: Db, subject_id: UUID) -> None:
        inside.append(let_on := asyncio.Event())
        await record_firing(db, kind, subject_id)
        await let_on.wait()

    async with keeping(database, fires):
        for claims in (1, 2):
            await set_for(database, kind, subject)
            await until(lambda claims=claims: len(inside) == claims)
        inside[0].set()
        await until(lambda: outcomes(kind, "overtaken") == 1)
        inside[1].set()
        await until(lambda: outcomes(kind, "fired") == 1)
    assert await firings(database, kind) == {subject: 1}


async def test_handler_of_a_moved_timer_does_not_start(database: Database, kind: TimerKind) -> None:
    """Claimed, then moved before its handler started, as happens to a frozen runner."""
    subject, keeper = uuid4(), TimerRunner(database, [recording(kind)])
    await set_for(database, kind, subject)
    async with database.connection() as db:
        (timer,) = await timers.claim_due(db, [kind], lease=uuid4(), lease_seconds=60, limit=9)
    await set_for(database, kind, subject, due_in=LATER)
    async with database.transaction() as db:
        assert not await timers.begin_firing(db, timer)
        for late_change in (timers.count_failure, timers.postpone):
            await late_change(db, timer)
        await timers.release(db, [timer])
    await keeper._fire(timer)
    assert not await firings(database, kind)
    assert (await waiting_timers(database, kind))[subject]["ahead"]


async def test_handler_can_set_its_own_timer_again(database: Database, kind: TimerKind) -> None:
    fires, subject = TimerHandlers(), uuid4()

    @fires(kind)
    async def search_again(db: Db, ride_id: UUID) -> None:
        await record_firing(db, kind, ride_id)
        times = await db.fetchval("SELECT count(*) FROM test_firings WHERE kind = $1", kind)
        if times < 3:
            await set_timer(db, kind, ride_id, due_in=timedelta(milliseconds=20))

    await set_for(database, kind, subject)
    async with keeping(database, fires):
        await until(lambda: outcomes(kind, "fired") == 3)
    assert await firings(database, kind) == {subject: 3}
    assert not await waiting_timers(database, kind)


async def test_handler_can_cancel_every_timer_of_its_subject(database: Database, kind: TimerKind) -> None:
    """As the function that ends a ride does, from a handler too."""
    fires, subject, other_kind = TimerHandlers(), uuid4(), new_kind()

    @fires(kind)
    async def end_ride(db: Db, ride_id: UUID) -> None:
        await record_firing(db, kind, ride_id)
        await set_timer(db, kind, ride_id, due_in=NOW)
        await cancel_timer(db, kind, ride_id)
        await cancel_timer(db, other_kind, ride_id)

    await set_for(database, kind, subject)
    await set_for(database, other_kind, subject, due_in=LATER)
    async with keeping(database, fires):
        await until(lambda: outcomes(kind, "fired") == 1)
    assert await firings(database, kind) == {subject: 1}
    assert not await waiting_timers(database, kind)
    assert not await waiting_timers(database, other_kind)


async def test_cancel_does_not_wait_for_the_running_handler(database: Database, kind: TimerKind) -> None:
    """A driver accepts while the offer expires: both lock rows first and timers last, so none deadlocks."""
    fires, offer, expiring = TimerHandlers(), uuid4(), asyncio.Event()
    reruns = database_module.RETRIED_TRANSACTIONS._value
    reruns_before = reruns.get()

    @fires(kind)
    async def expire_offer(db: Db, offer_id: UUID) -> None:
        expiring.set()
        await db.execute("UPDATE test_firings SET fired_at = '-infinity' WHERE subject_id = $1", offer_id)

    async with database.transaction() as db:
        await record_firing(db, kind, offer)  # stands for the offer's row
    async with keeping(database, fires):
        async with database.transaction() as db:
            await db.execute("UPDATE test_firings SET fired_at = 'infinity' WHERE subject_id = $1", offer)
            await set_for(database, kind, offer)
            await expiring.wait()
            await cancel_timer(db, kind, offer)
        await until(lambda: outcomes(kind, "overtaken") == 1)
    assert reruns.get() == reruns_before
    async with database.connection() as db:
        row = await db.fetchrow("SELECT fired_at = 'infinity' AS won FROM test_firings WHERE kind = $1", kind)
    assert row is not None
    assert row["won"]


class Explaining:
    """Runs each statement as a prepared one, and keeps its plan."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self.plan: dict = {}

    async def fetch(self, query: str, *args: object) -> list:
        literals = [
            await self._db.fetchval("SELECT quote_literal($1)", _as_text(argument)) for argument in args
        ]
        await self._db.execute(f"PREPARE explained AS {query}")
        answer = await self._db.fetchval(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained ({', '.join(literals)})"
        )
        await self._db.execute("DEALLOCATE explained")
        (self.plan,) = json.loads(answer)
        return []

    fetchval = fetch

    def pages(self) -> int:
        return self.plan["Plan"]["Shared Hit Blocks"] + self.plan["Plan"]["Shared Read Blocks"]


def _as_text(argument: object) -> str:
    return f"{{{','.join(map(str, argument))}}}" if isinstance(argument, list) else str(argument)


@pytest.mark.parametrize("due", [0, 4])
async def test_hundred_thousand_pending_timers_do_not_slow_claims(apart: Database, due: int) -> None:
    """A claim reads a few pages, however many timers of these or other kinds are pending."""
    kind, other_kind, foreign_kind = (new_kind() for _ in range(3))
    async with apart.connection() as db:
        await db.execute(
            "INSERT INTO timers (kind, subject_id, due_at, awake_at)"
            " SELECT kind, gen_random_uuid(), moment, moment FROM generate_series(1, 100000) AS n,"
            "   LATERAL (SELECT clock_timestamp() + interval '1 h' + n * interval '1 s') AS ahead (moment),"
            "   LATERAL (SELECT CASE WHEN n % 3 = 0 THEN $1 ELSE $2 END) AS mine (kind)"
            " UNION ALL"
            " SELECT $3, gen_random_uuid(), 'epoch', 'epoch' FROM generate_series(1, 20000)",
            kind,
            other_kind,
            foreign_kind,
        )
    for statistics in ("none yet", "fresh"):
        for plan in ("force_custom_plan", "force_generic_plan"):
            await set_for(apart, kind, *(uuid4() for _ in range(due)))
            async with apart.connection() as db:
                if statistics == "fresh":
                    await db.execute("ANALYZE timers")
                await db.execute(f"SET plan_cache_mode = {plan}")
                explaining = Explaining(db)
                await timers.claim_due(
                    explaining,  # type: ignore[arg-type]
                    [kind, other_kind],
                    lease=uuid4(),
                    lease_seconds=60,
                    limit=4,
                )
                claiming, how = explaining.pages(), json.dumps(explaining.plan, indent=1)
                assert "Seq Scan" not in how, how
                assert '"Index Name": "timers_by_time"' in how, how
                # Two descents of a small index if nothing is due; for each due timer its row and its indexes.
                assert claiming <= 20 + 20 * due, how
                await timers.seconds_to_next(explaining, [kind, other_kind])  # type: ignore[arg-type]
                how = json.dumps(explaining.plan, indent=1)
                assert "Seq Scan" not in how, how
                assert explaining.pages() <= 20, how
                await db.execute("RESET plan_cache_mode")


async def test_pending_and_overdue_timers_are_counted_to_a_limit(
    apart: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "COUNTED_TO", 5)
    one, many = sorted([new_kind(), new_kind()])
    long_ago = -2 * timers.OVERDUE
    async with apart.transaction() as db:
        assert await timers.count_timers(db) == []
        await set_timer(db, one, uuid4(), due_in=LATER)
        await set_timer(db, one, uuid4(), due_in=NOW)
        await set_timer(db, one, uuid4(), due_in=long_ago)
        await set_timer(db, many, *(uuid4() for _ in range(9)), due_in=long_ago)
        for timer in await timers.claim_due(db, [many], lease=uuid4(), lease_seconds=60, limit=2):
            await db.execute("UPDATE timers SET failures = 9 WHERE subject_id = $1", timer.subject_id)
            await timers.count_failure(db, timer)
        counted = await timers.count_timers(db)
    assert counted == [timers.TimerCount(one, 3, 1), timers.TimerCount(many, 5, 5)]


async def test_doctor_reports_long_overdue_timers(apart: Database, kind: TimerKind) -> None:
    async def found() -> list[tuple[str, ...]]:
        return [verdict.found for verdict in await check_invariants(apart, timers.TIMER_INVARIANTS)]

    late = uuid4()
    await set_for(apart, kind, uuid4())
    assert await found() == [(), ()]
    await set_for(apart, kind, late, due_in=-2 * timers.OVERDUE)
    assert await found() == [(f"subject_id={late} failures=0",), ()]
    async with apart.connection() as db:
        await db.execute("ALTER TABLE timers DROP CONSTRAINT timers_pkey")
    assert (await found())[1] == ("timers_pkey on timers is missing",)
