"""The doctor rules of analytics."""

from uuid import uuid4

from catraca.domains import analytics
from catraca.platform.database import Database
from catraca.platform.database.invariants import check_invariants
from tests.servers import Stack

BREACHES = {
    "one alert per region and window": "ALTER TABLE demand_alerts"
    " DROP CONSTRAINT one_alert_a_region_and_window",
    "alerts count no more than their window": "INSERT INTO match_windows VALUES"
    " (1, '2026-01-01', '2026-01-02', 3, 1); INSERT INTO demand_alerts VALUES"
    " (gen_random_uuid(), 1, '2026-01-01', '2026-01-02', 3, 2)",
}


async def broken(database: Database) -> set[str]:
    verdicts = await check_invariants(database, analytics.INVARIANTS)
    assert "unchecked" not in {verdict.state for verdict in verdicts}
    return {verdict.rule.name for verdict in verdicts if verdict.state == "broken"}


async def test_rules_hold_and_each_breach_is_found(stack: Stack) -> None:
    database = await Database.open(await stack.migrated_database(f"figures-{uuid4().hex[:8]}"))
    assert await broken(database) == set()
    assert set(BREACHES) == {rule.name for rule in analytics.INVARIANTS}
    seen: set[str] = set()
    for name, breach in BREACHES.items():
        async with database.connection() as db:
            await db.execute(breach)
        seen.add(name)
        assert await broken(database) == seen
    await database.close()
