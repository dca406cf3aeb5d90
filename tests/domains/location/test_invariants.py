"""Location's rules of `catraca doctor --invariants`: they hold, and breaches are found."""

from catraca.domains import location
from catraca.platform.database.invariants import check_invariants
from tests.domains.location.town import Town

FLIP = "UPDATE driver_presence SET online = {}, free_since = NULL, lat = NULL, lng = NULL, position_at = NULL"


async def broken(town: Town) -> list[str]:
    verdicts = await check_invariants(town.parts.database, location.INVARIANTS)
    assert "unchecked" not in {verdict.state for verdict in verdicts}
    return [verdict.rule.name for verdict in verdicts if verdict.state == "broken"]


async def test_rules_hold_and_each_breach_is_found(town: Town) -> None:
    staying, leaving, silent = [await town.new_driver() for _ in range(3)]
    await town.go(leaving, online=False)
    await town.make_silent(silent)
    await town.patrol().check_all()
    assert await broken(town) == []
    async with town.parts.database.connection() as db:
        for online, driver_id in ((False, staying), (True, leaving), (True, silent)):
            change = f"{FLIP.format(online)}, cell = NULL WHERE driver_id = $1"
            await db.execute(change, driver_id)
            assert await broken(town) == ["presence changes are published"]
            await db.execute(FLIP.format(not online) + ", cell = NULL WHERE driver_id = $1", driver_id)
            assert await broken(town) == []


async def test_invariant_finds_a_missing_constraint(town: Town) -> None:
    rule = next(rule for rule in location.INVARIANTS if rule.name == "offline drivers have no position")
    async with town.parts.database.connection() as db:
        definition = await db.fetchval(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'the_offline_are_nowhere'"
        )
        await db.execute("ALTER TABLE driver_presence DROP CONSTRAINT the_offline_are_nowhere")
        try:
            assert await broken(town) == [rule.name]
        finally:
            await db.execute(
                f"ALTER TABLE driver_presence ADD CONSTRAINT the_offline_are_nowhere {definition}"
            )
    assert await broken(town) == []
