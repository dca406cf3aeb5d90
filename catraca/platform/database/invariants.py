"""Rules for a live system: a query that must return no row, or a constraint or trigger that must exist.

Each domain has a tuple `INVARIANTS` in its store; `catraca doctor --invariants` checks them all.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import asyncpg

from catraca.platform.database import Database, DatabaseLimits, Db, Row
from catraca.platform.errors import Refusal

ROWS_SHOWN = 20
RULE_SECONDS = 20.0
# For a pool that only checks rules: one connection, and time to read a whole table.
INVARIANT_LIMITS = DatabaseLimits(connections=1, statement_seconds=RULE_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """A query that must return no row. Only ids and numbers of its rows are shown."""

    number: int | None = None
    name: str
    sentence: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintHeld:
    """A constraint or unique index that must exist, be valid, and contain every part of `definition`."""

    number: int | None = None
    name: str
    sentence: str
    table: str
    constraint: str
    definition: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerHeld:
    """A trigger that must exist, be enabled, and contain, with its function, every part of `definition`."""

    number: int | None = None
    name: str
    sentence: str
    table: str
    trigger: str
    definition: tuple[str, ...] = ()


Rule = Invariant | ConstraintHeld | TriggerHeld
State = Literal["held", "broken", "unchecked"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one rule. `found` lists the offending rows, or why the rule could not be checked."""

    rule: Rule
    state: State
    found: tuple[str, ...] = ()


async def check_invariants(database: Database, rules: Sequence[Rule]) -> list[Verdict]:
    """Check every rule, each in its own read-only transaction: a failed check does not stop the others."""
    return [await _check(database, rule) for rule in rules]


async def _check(database: Database, rule: Rule) -> Verdict:
    try:
        async with asyncio.timeout(RULE_SECONDS + 1), database.transaction() as db:
            await db.execute("SET TRANSACTION READ ONLY")
            await db.execute(f"SET LOCAL statement_timeout = {int(RULE_SECONDS * 1000)}")
            found = await _offences(db, rule)
    except Refusal as refusal:
        return Verdict(rule, "unchecked", (refusal.code,))
    except TimeoutError:
        return Verdict(rule, "unchecked", (f"no answer within {RULE_SECONDS:.0f} s",))
    except asyncpg.PostgresError as error:
        # Without its message, which may quote values.
        return Verdict(rule, "unchecked", (type(error).__name__,))
    return Verdict(rule, "broken" if found else "held", tuple(found))


async def _offences(db: Db, rule: Rule) -> list[str]:
    if isinstance(rule, Invariant):
        rows = await db.fetch(
            f"SELECT * FROM ({rule.query}) AS offending LIMIT {ROWS_SHOWN + 1}"  # noqa: S608 - our own rules
        )
        more = [f"more than {ROWS_SHOWN}"] if len(rows) > ROWS_SHOWN else []
        return [_ids_of(row) for row in rows[:ROWS_SHOWN]] + more
    if isinstance(rule, ConstraintHeld):
        return _amiss(await _constraint(db, rule), rule.constraint, rule.table, rule.definition)
    return _amiss(await _trigger(db, rule), rule.trigger, rule.table, rule.definition)


def _ids_of(row: Row) -> str:
    return " ".join(f"{name}={_id(value)}" for name, value in row.items())


def _id(value: object) -> str:
    """Only ids and numbers: a text could be personal data."""
    if isinstance(value, (UUID, int)):
        return str(value)
    return value.hex() if isinstance(value, bytes) else "[not an id]"


def _amiss(row: Row | None, name: str, table: str, definition: tuple[str, ...]) -> list[str]:
    if row is None:
        return [f"{name} on {table} is missing"]
    if not row["stands"]:
        return [f"{name} on {table} exists but is not enforced"]
    if not all(part in row["definition"] for part in definition):
        return [f"{name} on {table} has a different definition"]
    return []


async def _constraint(db: Db, rule: ConstraintHeld) -> Row | None:
    """A constraint with its index, or a unique index without a constraint, as partial ones are."""
    return await db.fetchrow(
        "SELECT c.convalidated AND coalesce(i.indisvalid AND i.indisready, true) AS stands,"
        "       pg_get_constraintdef(c.oid) AS definition"
        " FROM pg_constraint c"
        " LEFT JOIN pg_index i ON i.indexrelid = c.conindid AND c.contype IN ('p', 'u', 'x')"
        " WHERE c.conrelid = to_regclass($1) AND c.conname = $2"
        " UNION ALL "
        "SELECT i.indisunique AND i.indisvalid AND i.indisready, pg_get_indexdef(i.indexrelid)"
        " FROM pg_index i JOIN pg_class n ON n.oid = i.indexrelid"
        " WHERE i.indrelid = to_regclass($1) AND n.relname = $2 LIMIT 1",
        rule.table,
        rule.constraint,
    )


async def _trigger(db: Db, rule: TriggerHeld) -> Row | None:
    return await db.fetchrow(
        "SELECT t.tgenabled IN ('O', 'A') AS stands,"
        "       pg_get_triggerdef(t.oid) || E'\\n' || p.prosrc AS definition"
        " FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
        " WHERE t.tgrelid = to_regclass($1) AND t.tgname = $2 AND NOT t.tgisinternal",
        rule.table,
        rule.trigger,
    )


PLATFORM_INVARIANTS: tuple[Rule, ...] = (
    ConstraintHeld(
        name="the audit log can be read",
        sentence="A constraint refuses entries whose data are not an object, which would fail a list.",
        table="audit_log",
        constraint="audit_data_are_objects",
        definition=("jsonb_typeof(data)", "object"),
    ),
    ConstraintHeld(
        number=6,
        name="one effect per idempotency key",
        sentence="A key is stored once, with the response of its one effect.",
        table="idempotency_keys",
        constraint="idempotency_keys_pkey",
        definition=("PRIMARY KEY (scope)",),
    ),
    Invariant(
        number=6,
        name="every stored key has its response",
        sentence="No key is committed without the response of its effect.",
        query="SELECT scope FROM idempotency_keys WHERE status IS NULL OR headers IS NULL OR body IS NULL",
    ),
    TriggerHeld(
        name="the audit log only grows",
        sentence="Rows of the audit log cannot be changed or deleted.",
        table="audit_log",
        trigger="audit_log_is_append_only",
        definition=("BEFORE DELETE OR UPDATE OR TRUNCATE ON", "FOR EACH STATEMENT", "RAISE EXCEPTION"),
    ),
)
