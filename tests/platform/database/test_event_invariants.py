"""The rules for events of `catraca doctor --invariants`: they hold, and each breach is reported."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from catraca.events import UserCreated
from catraca.platform.database import Database, outbox
from catraca.platform.database.event_invariants import EVENT_INVARIANTS, no_event_is_missing
from catraca.platform.database.invariants import INVARIANT_LIMITS, Rule, check_invariants
from tests.servers import Stack

SENT = (
    "WITH gone AS (DELETE FROM outbox WHERE {} RETURNING *)"
    " INSERT INTO outbox_sent (id, aggregate_id, seq, exchange, routing_key, headers, body, created_at)"
    " SELECT id, aggregate_id, seq, exchange, routing_key, headers, body, created_at FROM gone"
)


@pytest.fixture(scope="module")
async def own(stack: Stack) -> AsyncIterator[Database]:
    """A separate database for these tests."""
    url = await stack.migrated_database(f"events-{uuid4().hex[:8]}")
    database = await Database.open(url, limits=INVARIANT_LIMITS)
    yield database
    await database.close()


@pytest.fixture
async def fresh(own: Database) -> Database:
    """The same without events of earlier tests."""
    await run(own, "TRUNCATE outbox, outbox_sent, outbox_heads")
    return own


@pytest.fixture
async def aggregate(fresh: Database) -> UUID:
    """An aggregate with six events: three sent, three unsent."""
    aggregate_id = uuid4()
    event = UserCreated(user_id=aggregate_id, roles=())
    await fresh.run(lambda db: outbox.record(db, *[event] * 6))
    await run(fresh, SENT.format("seq <= 3"))
    return aggregate_id


async def broken(database: Database, *rules: Rule) -> dict[str, tuple[str, ...]]:
    verdicts = await check_invariants(database, rules or EVENT_INVARIANTS)
    assert not [verdict for verdict in verdicts if verdict.state == "unchecked"]
    return {verdict.rule.name: verdict.found for verdict in verdicts if verdict.state == "broken"}


async def run(database: Database, *statements: str) -> None:
    async with database.connection() as db:
        for statement in statements:
            await db.execute(statement)


# A change of the database, and the findings of each broken rule; {about} is the aggregate.
BREAKS = {
    "a sent event is gone": (
        "DELETE FROM outbox_sent WHERE seq = 2",
        {"no event is missing": ("aggregate_id={about} missing_seq=2",)},
    ),
    "a waiting event is gone": (
        "DELETE FROM outbox WHERE seq = 5",
        {"no event is missing": ("aggregate_id={about} missing_seq=5",)},
    ),
    "the first that waits is gone": (
        "DELETE FROM outbox WHERE seq = 4",
        {"no event is missing": ("aggregate_id={about} missing_seq=4",)},
    ),
    "the last event is gone": (
        "DELETE FROM outbox WHERE seq = 6",
        {"no event is missing": ("aggregate_id={about} missing_seq=6",)},
    ),
    "an event nobody numbered": (
        "UPDATE outbox SET seq = 7 WHERE seq = 6",
        {
            "every number was given out": ("aggregate_id={about} seq=7",),
            "no event is missing": ("aggregate_id={about} missing_seq=6",),
        },
    ),
    "an event left lying": (
        "UPDATE outbox SET created_at = clock_timestamp() - interval '61 s', failures = 9 WHERE seq = 4",
        {"no event waits": ("aggregate_id={about} seq=4 failures=9",)},
    ),
    "two events with one number": (
        "UPDATE outbox_sent SET seq = 2 WHERE seq = 3",
        {
            "no event is stored twice": ("aggregate_id={about} seq=2",),
            "no event is missing": ("aggregate_id={about} missing_seq=3",),
        },
    ),
    "two events with one id": (
        "UPDATE outbox_sent SET id = (SELECT id FROM outbox WHERE seq = 4) WHERE seq = 3",
        {"no event is stored twice": ("aggregate_id={about} seq=4",)},
    ),
}


# The findings of each constraint's rule when the constraint is dropped.
CONSTRAINTS = {
    "one count per aggregate": "outbox_heads_pkey on outbox_heads",
    "one event per number": "outbox_aggregate_id_seq_key on outbox",
    "one inbox row per consumer and event": "inbox_pkey on inbox",
    "one id per event": "outbox_pkey on outbox",
    "one id per sent event": "outbox_sent_pkey on outbox_sent",
}


async def test_all_rules_hold_on_a_sound_database(fresh: Database, aggregate: UUID) -> None:
    assert await broken(fresh) == {}
    await run(fresh, SENT.format("true"))
    assert await broken(fresh) == {}


@pytest.mark.parametrize("how", BREAKS)
async def test_only_the_broken_rule_is_reported(fresh: Database, aggregate: UUID, how: str) -> None:
    statements, expected = BREAKS[how]
    await run(fresh, statements)
    found = {
        # The event's own id is new each time.
        name: tuple(" ".join(word for word in line.split() if not word.startswith("id=")) for line in lines)
        if name in ("every number was given out", "no event waits")
        else lines
        for name, lines in (await broken(fresh)).items()
    }
    assert found == {
        name: tuple(line.format(about=aggregate) for line in lines) for name, lines in expected.items()
    }


async def test_missing_constraint_is_reported(stack: Stack) -> None:
    url = await stack.migrated_database(f"events-{uuid4().hex[:8]}")
    database = await Database.open(url, limits=INVARIANT_LIMITS)
    expected: dict[str, tuple[str, ...]] = {}
    for name, constraint in CONSTRAINTS.items():
        what, _, table = constraint.partition(" on ")
        await run(database, f"ALTER TABLE {table} DROP CONSTRAINT {what}")
        expected[name] = (f"{constraint} is missing",)
        assert await broken(database) == expected
    await run(database, "ALTER TABLE inbox ADD PRIMARY KEY (event_id)")
    expected["one inbox row per consumer and event"] = ("inbox_pkey on inbox has a different definition",)
    assert await broken(database) == expected
    await database.close()


def test_every_rule_has_a_test_that_breaks_it() -> None:
    rules = {name for _, names in BREAKS.values() for name in names} | CONSTRAINTS.keys()
    assert rules == {rule.name for rule in EVENT_INVARIANTS}


async def test_event_without_a_counter_row_is_reported(fresh: Database, aggregate: UUID) -> None:
    await run(fresh, "DELETE FROM outbox_heads")
    assert (await broken(fresh)).keys() == {"every number was given out"}


async def test_pruned_events_are_no_gap(fresh: Database, aggregate: UUID) -> None:
    """Also if the rows of one batch have different times, and a later one is pruned before an earlier one."""
    old = "UPDATE outbox_sent SET sent_at = clock_timestamp() - interval '1 day' + interval '{} ms' * {}"
    await run(
        fresh,
        SENT.format("true"),
        old.format(-5, "1 WHERE seq IN (1, 2, 4)"),
        old.format(60_000, "1 WHERE seq = 3"),
        "UPDATE outbox_sent SET sent_at = clock_timestamp() - interval '2 hours' WHERE seq > 4",
    )
    assert await fresh.run(lambda db: outbox.prune_sent(db, older_than=timedelta(days=1))) == 3
    assert await broken(fresh) == {}
    await run(fresh, "DELETE FROM outbox_sent WHERE seq = 6")
    assert await broken(fresh) == {"no event is missing": (f"aggregate_id={aggregate} missing_seq=6",)}


async def test_events_beyond_the_checked_ones_are_no_gap(fresh: Database, aggregate: UUID) -> None:
    """The newest three are checked: the third event is one of them, and the fourth is slightly older."""
    await run(
        fresh,
        SENT.format("true"),
        "UPDATE outbox_sent SET sent_at = clock_timestamp() - interval '1 hour' * (7 - seq)",
        "UPDATE outbox_sent SET sent_at = sent_at - interval '61 minutes' WHERE seq = 4",
    )
    assert await broken(fresh, no_event_is_missing(checked=3)) == {}
    await run(fresh, "DELETE FROM outbox_sent WHERE seq = 6")
    missing = {"no event is missing": (f"aggregate_id={aggregate} missing_seq=6",)}
    assert await broken(fresh, no_event_is_missing(checked=3)) == missing
