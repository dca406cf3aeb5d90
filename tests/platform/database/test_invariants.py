"""Rules for a live system: all hold on a sound database, and each is reported when it is broken."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from catraca.platform.database import Database, invariants
from catraca.platform.database.invariants import (
    INVARIANT_LIMITS,
    PLATFORM_INVARIANTS,
    ConstraintHeld,
    Invariant,
    Rule,
    check_invariants,
)
from tests.servers import Stack


@pytest.fixture
async def fresh(stack: Stack) -> AsyncIterator[Database]:
    """A migrated database that a test may break."""
    url = await stack.migrated_database(f"broken-{uuid4().hex[:8]}")
    database = await Database.open(url, limits=INVARIANT_LIMITS)
    yield database
    await database.close()


async def broken(database: Database, *rules: Rule) -> dict[str, tuple[str, ...]]:
    verdicts = await check_invariants(database, rules or PLATFORM_INVARIANTS)
    assert not [verdict for verdict in verdicts if verdict.state == "unchecked"]
    return {verdict.rule.name: verdict.found for verdict in verdicts if verdict.state == "broken"}


async def run(database: Database, *statements: str) -> None:
    async with database.connection() as db:
        for statement in statements:
            await db.execute(statement)


CONSTRAINT, TRIGGER = "idempotency_keys_pkey on idempotency_keys", "audit_log_is_append_only on audit_log"
READABLE, EFFECTS, ANSWERS, LOG = (rule.name for rule in PLATFORM_INVARIANTS)
# A change of the database, the rule that it breaks, and the rule's finding.
BREAKS = {
    "the key of idempotency keys dropped": (
        "ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_pkey",
        (EFFECTS, f"{CONSTRAINT} is missing"),
    ),
    "the key put on more columns": (
        """ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_pkey;
           ALTER TABLE idempotency_keys ADD PRIMARY KEY (scope, fingerprint)""",
        (EFFECTS, f"{CONSTRAINT} has a different definition"),
    ),
    "the key's index invalid": (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idempotency_keys_pkey'::regclass",
        (EFFECTS, f"{CONSTRAINT} exists but is not enforced"),
    ),
    "a key stored without its answer": (
        """ALTER TABLE idempotency_keys
               ALTER status DROP NOT NULL, ALTER headers DROP NOT NULL, ALTER body DROP NOT NULL;
           INSERT INTO idempotency_keys (scope, fingerprint, status, headers, body)
               VALUES (decode(repeat('07', 32), 'hex'), decode(repeat('00', 32), 'hex'), NULL, NULL, NULL),
                      (decode(repeat('08', 32), 'hex'), decode(repeat('00', 32), 'hex'), 200, '{}', '')""",
        (ANSWERS, f"scope={'07' * 32}"),
    ),
    "entries without an object allowed": (
        "ALTER TABLE audit_log DROP CONSTRAINT audit_data_are_objects",
        (READABLE, "audit_data_are_objects on audit_log is missing"),
    ),
    "the trigger disabled": (
        "ALTER TABLE audit_log DISABLE TRIGGER audit_log_is_append_only",
        (LOG, f"{TRIGGER} exists but is not enforced"),
    ),
    "the trigger kept for replicas only": (
        "ALTER TABLE audit_log ENABLE REPLICA TRIGGER audit_log_is_append_only",
        (LOG, f"{TRIGGER} exists but is not enforced"),
    ),
    "the trigger dropped": (
        "DROP TRIGGER audit_log_is_append_only ON audit_log",
        (LOG, f"{TRIGGER} is missing"),
    ),
    "the trigger no longer for deletions": (
        """CREATE OR REPLACE TRIGGER audit_log_is_append_only BEFORE UPDATE ON audit_log
               FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()""",
        (LOG, f"{TRIGGER} has a different definition"),
    ),
    "the trigger's function made harmless": (
        """CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql
               AS 'BEGIN RETURN NULL; END'""",
        (LOG, f"{TRIGGER} has a different definition"),
    ),
}


async def test_all_rules_hold_on_a_sound_database(fresh: Database) -> None:
    verdicts = await check_invariants(fresh, PLATFORM_INVARIANTS)
    assert [verdict.state for verdict in verdicts] == ["held"] * len(PLATFORM_INVARIANTS)


@pytest.mark.parametrize("how", BREAKS)
async def test_only_the_broken_rule_is_reported(fresh: Database, how: str) -> None:
    statements, (name, found) = BREAKS[how]
    await run(fresh, statements)
    assert await broken(fresh) == {name: (found,)}


async def test_constraint_that_is_not_validated_is_reported(fresh: Database) -> None:
    await run(
        fresh,
        "CREATE TABLE t (n int, CONSTRAINT small CHECK (n < 10))",
        "ALTER TABLE t ADD CONSTRAINT positive CHECK (n > 0) NOT VALID",
        "CREATE UNIQUE INDEX one ON t (n) WHERE n > 5",
        "CREATE INDEX many ON t (n)",
    )

    def rule(name: str, *definition: str) -> ConstraintHeld:
        return ConstraintHeld(name=name, sentence=".", table="t", constraint=name, definition=definition)

    rules = (rule("small"), rule("positive"), rule("one", "WHERE (n > 5)"), rule("many"), rule("none"))
    assert (await broken(fresh, *rules)).keys() == {"positive", "many", "none"}
    assert (await broken(fresh, rule("one", "WHERE (n > 6)"))).keys() == {"one"}


async def test_offending_rows_show_ids_and_no_personal_data(fresh: Database) -> None:
    query = (
        "SELECT gen_random_uuid() AS user_id, 7 AS seq, 'maria@example.org' AS email,"
        " ARRAY['Maria'] AS names, '\\x01ff'::bytea AS scope FROM generate_series(1, {})"
    )
    one = Invariant(name="one", sentence=".", query=query.format(1))
    many = Invariant(name="many", sentence=".", query=query.format(100))
    found = await broken(fresh, one, many)
    assert "maria" not in str(found).lower()
    assert found["one"][0].endswith(" seq=7 email=[not an id] names=[not an id] scope=01ff")
    assert len(found["many"]) == 21
    assert found["many"][-1] == "more than 20"


async def test_rules_only_read(fresh: Database) -> None:
    sly = Invariant(
        name="sly",
        sentence=".",
        query="SELECT 1 FROM set_config('transaction_read_only', 'off', true), nextval('counter')",
    )
    await run(fresh, "CREATE SEQUENCE counter")
    (verdict,) = await check_invariants(fresh, [sly])
    assert verdict.state == "unchecked"


async def test_unchecked_rule_is_reported_and_others_are_checked(
    fresh: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invariants, "RULE_SECONDS", 0.2)
    rules = [
        Invariant(name="no table", sentence=".", query="SELECT id FROM nowhere"),
        Invariant(name="slow", sentence=".", query="SELECT 1 FROM pg_sleep(60)"),
        *PLATFORM_INVARIANTS,
    ]
    verdicts = await check_invariants(fresh, rules)
    assert [(verdict.state, verdict.found) for verdict in verdicts[:2]] == [
        ("unchecked", ("UndefinedTableError",)),
        ("unchecked", ("busy",)),
    ]
    assert {verdict.state for verdict in verdicts[2:]} == {"held"}


async def test_rules_are_unchecked_while_the_database_is_away(stack: Stack) -> None:
    away = await Database.open(
        f"postgresql://catraca@/catraca?host={stack.folder}/nowhere", limits=INVARIANT_LIMITS
    )
    verdicts = await check_invariants(away, PLATFORM_INVARIANTS)
    assert {(verdict.state, verdict.found) for verdict in verdicts} == {
        ("unchecked", ("database_unavailable",))
    }
    await away.close()
