"""Statements of nearly every request are planned once for each connection, for tables of any size."""

from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import pytest

from catraca.domains.location.nearby.store import online_drivers
from catraca.domains.people.accounts.store import read_standings
from catraca.platform.database import PREFER_INDEXES, Database, Db
from tests.servers import Stack

# PostgreSQL plans the first calls anew, and then compares that with one plan for all.
CALLS, PLANNED_ANEW = 12, 5


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        pytest.param(read_standings, "tokens_valid_after", id="whose token"),
        pytest.param(online_drivers, "driver_presence", id="which drivers are available"),
    ],
)
async def test_statement_is_planned_once(
    stack: Stack, statement: Callable[[Db, list[UUID]], Awaitable[object]], words: str
) -> None:
    # A connection of its own, which has prepared nothing yet.
    database = await Database.open(stack.database_url, planning=PREFER_INDEXES)
    async with database.transaction() as db:
        for count in range(CALLS):
            await statement(db, [uuid4() for _ in range(count % 3 + 1)])
        plans = await db.fetch(
            "SELECT name, custom_plans, generic_plans FROM pg_prepared_statements"
            " WHERE strpos(statement, $1) > 0 AND strpos(statement, 'pg_prepared') = 0",
            words,
        )
        (plan,) = plans
        assert (plan["custom_plans"], plan["generic_plans"]) == (PLANNED_ANEW, CALLS - PLANNED_ANEW)
        lines = await db.fetch(f"""EXPLAIN EXECUTE "{plan["name"]}" ('{{{uuid4()}}}')""")
    await database.close()
    text = "\n".join(line["QUERY PLAN"] for line in lines)
    # The tables are small now. The plan is kept while they grow, and so must not read all rows.
    assert "Seq Scan" not in text
    assert "hashed" not in text
